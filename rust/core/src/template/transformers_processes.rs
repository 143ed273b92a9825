//! [`RenderProcesses`]: processes that run `transformers` to render conversations that this renderer refuses.
//!
//! A process reads one line of JSON for each conversation and answers with one line. It ends when its input
//! ends, so no process outlives this one, even after a crash.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chrono::NaiveDateTime;
use fastpack_template::RenderOutput;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::start_thread;

/// Interval at which a wait for an answer checks the cancel flag.
const POLL: Duration = Duration::from_millis(50);

/// The command that starts a rendering process, and the control of the run.
#[derive(Clone, Debug)]
pub struct RenderCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The control of the run, which holds its cancel flag.
    pub control: Arc<Control>,
}

/// The answer of a rendering process.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProcessReply {
    /// The process has compiled the template.
    Ready,
    /// The text, and the byte ranges that the assistant wrote.
    Rendered(String, Vec<(usize, usize)>),
    /// The conversation cannot be rendered, for this reason.
    Failed(String),
    /// The template cannot be compiled: the line and the reason.
    Refused(usize, String),
    /// `transformers` cannot be used, for this reason.
    Missing(String),
}

/// A pool of processes that render one template: as many as threads have rendered at the same time.
pub(super) struct RenderProcesses {
    launch: RenderCommand,
    name: String,
    /// The first line that a process reads: the template and the time, as JSON.
    setup: String,
    idle: Mutex<Vec<RenderProcess>>,
    /// True if any conversation was sent to a process.
    used: AtomicBool,
    /// The error of the first process that failed.
    broken: OnceLock<BrokenProcess>,
}

/// The error of a process that failed.
struct BrokenProcess {
    /// True if it could not be used from the beginning.
    never_started: bool,
    reason: String,
}

impl fmt::Debug for RenderProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RenderProcesses {
    /// A pool for the template `source`, in which `strftime_now` formats `now`. It starts no process.
    pub(super) fn new(name: &str, source: &str, now: NaiveDateTime, launch: RenderCommand) -> Self {
        let setup = json!({ "template": source, "now": now.and_utc().timestamp_micros() });
        Self {
            launch,
            name: name.to_owned(),
            setup: setup.to_string(),
            idle: Mutex::default(),
            used: AtomicBool::new(false),
            broken: OnceLock::new(),
        }
    }

    /// Starts a first process, which compiles the template.
    ///
    /// # Errors
    ///
    /// [`Error::Template`] for a template that `transformers` refuses too, [`Error::Option`] if no process
    /// starts or `transformers` cannot be used, [`Error::Cancelled`] if the run was cancelled.
    pub(super) fn start(self) -> Result<Self> {
        let first = self.process()?;
        self.idle().push(first);
        Ok(self)
    }

    /// True if any conversation was sent to a process.
    pub(super) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Renders the conversation in `request`. A failure is about this conversation, unless
    /// [`RenderProcesses::broken`] has an error.
    pub(super) fn render(&self, request: &[u8]) -> std::result::Result<RenderOutput, String> {
        self.used.store(true, Ordering::Relaxed);
        let kept = self.idle().pop();
        let mut process = match kept.map_or_else(|| self.process(), Ok) {
            Ok(process) => process,
            Err(Error::Option { reason, .. }) => {
                return Err(self.broken_by(true, reason.to_string()));
            }
            Err(error) => return Err(self.broken_by(false, error.to_string())),
        };
        match process.request(request, &self.launch.control) {
            Ok(ProcessReply::Rendered(text, spans)) => {
                self.idle().push(process);
                let spans = spans.into_iter().map(|(start, end)| start..end);
                let spans = spans.filter(|span| !Range::is_empty(span)).collect();
                Ok(RenderOutput { text, spans, ..RenderOutput::default() })
            }
            Ok(ProcessReply::Failed(reason)) => {
                self.idle().push(process);
                Err(reason)
            }
            Ok(other) => Err(self.broken_by(false, format!("it answered {other:?}"))),
            Err(reason) => Err(self.broken_by(false, reason)),
        }
    }

    /// Keeps the error of the first process that failed, and returns its reason.
    fn broken_by(&self, never_started: bool, reason: String) -> String {
        self.broken.get_or_init(|| BrokenProcess { never_started, reason }).reason.clone()
    }

    /// The error of the first process that failed, if one has.
    pub(super) fn broken(&self) -> Option<Error> {
        self.broken.get().map(|BrokenProcess { never_started, reason }| {
            if *never_started {
                return Error::option("chat_template.engine", reason.clone());
            }
            Error::Template {
                name: self.name.clone(),
                line: 1,
                reason: format!("the process that renders it failed: {reason}").into(),
            }
        })
    }

    fn process(&self) -> Result<RenderProcess> {
        let unusable = |reason: String| Error::option("chat_template.engine", reason);
        let mut process = RenderProcess::start(&self.launch.command)
            .map_err(|error| unusable(format!("is \"python\", but no process starts: {error}")))?;
        match process.request(self.setup.as_bytes(), &self.launch.control) {
            Ok(ProcessReply::Ready) => Ok(process),
            Ok(ProcessReply::Refused(line, reason)) => {
                Err(Error::Template { name: self.name.clone(), line, reason: reason.into() })
            }
            Ok(ProcessReply::Missing(what)) => {
                Err(unusable(format!("is \"python\", but transformers cannot be used: {what}")))
            }
            Ok(other) => Err(unusable(format!("is \"python\", but the process says {other:?}"))),
            Err(_) if self.launch.control.is_cancelled() => Err(Error::Cancelled),
            Err(reason) => Err(unusable(format!("is \"python\", but {reason}"))),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<RenderProcess>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rendering process. Dropping it kills the process and waits for its end.
struct RenderProcess {
    process: Child,
    requests: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

impl RenderProcess {
    fn start(command: &[String]) -> std::io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "no program is named")
        })?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(requests), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both were asked for");
        };
        let (sender, answers) = channel();
        // The thread ends when the process does, because its output ends then.
        start_thread::start("fastpack-answers", move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { process, requests, answers })
    }

    /// Sends a line and waits for the answer. Fails with the reason if none comes.
    fn request(
        &mut self,
        line: &[u8],
        control: &Control,
    ) -> std::result::Result<ProcessReply, String> {
        let sent = self.requests.write_all(line).and_then(|()| self.requests.write_all(b"\n"));
        if sent.and_then(|()| self.requests.flush()).is_err() {
            return Err(self.end());
        }
        loop {
            match self.answers.recv_timeout(POLL) {
                Ok(Ok(answer)) => {
                    return serde_json::from_str(&answer)
                        .map_err(|error| format!("it answered something else: {error}"));
                }
                Ok(Err(error)) => return Err(error.to_string()),
                Err(RecvTimeoutError::Disconnected) => return Err(self.end()),
                Err(RecvTimeoutError::Timeout) if control.is_cancelled() => {
                    return Err("the run was cancelled".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits for the end of the process, and returns a message with its exit status.
    fn end(&mut self) -> String {
        match self.process.wait() {
            Ok(status) => format!("it ended by itself ({status})"),
            Err(error) => format!("it ended by itself ({error})"),
        }
    }
}

impl Drop for RenderProcess {
    fn drop(&mut self) {
        // `kill` fails for a process that has ended. Such a process is waited for as well.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
