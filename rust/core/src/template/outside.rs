//! [`Outside`]: templates that this renderer refuses, rendered by `transformers` in processes of their own.
//!
//! A process reads a line of JSON for each conversation and answers with one. It ends when its input does, so that
//! none outlives this process, however that ends.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chrono::NaiveDateTime;
use fastpack_template::Output;
use serde::Deserialize;
use serde_json::json;

use crate::control::Control;
use crate::error::{Error, Result};
use crate::threads;

/// How often a wait for an answer looks whether the run was cancelled.
const POLL: Duration = Duration::from_millis(50);

/// How a process that renders is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Tells whether the run was cancelled.
    pub control: Arc<Control>,
}

/// What a process answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// It has compiled the template.
    Ready,
    /// The text, and the bytes of it that the assistant wrote.
    Rendered(String, Vec<(usize, usize)>),
    /// The template, or what runs it, failed at this conversation.
    Failed(String),
    /// The template cannot be used, for this reason in this line.
    Refused(usize, String),
    /// There is nothing that could render.
    Missing(String),
}

/// Processes that render one template: as many as there are threads that ask at once.
pub(super) struct Outside {
    launch: Launch,
    name: String,
    /// What a process is told first.
    setup: String,
    idle: Mutex<Vec<Worker>>,
    /// Whether anything was rendered.
    used: AtomicBool,
    /// Why there is no use in going on.
    broken: OnceLock<String>,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Outside {
    /// Processes for the template `source`, for which it is `now`; none of them runs yet.
    pub(super) fn new(name: &str, source: &str, now: NaiveDateTime, launch: Launch) -> Self {
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
    /// [`Error::Template`] for a template that `transformers` refuses too, [`Error::Option`] where there is no
    /// process to be had.
    pub(super) fn start(self) -> Result<Self> {
        let first = self.worker()?;
        self.idle().push(first);
        Ok(self)
    }

    /// Whether anything was rendered.
    pub(super) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Renders what `request` tells; the failure is the conversation's unless [`Outside::broken`] says otherwise.
    pub(super) fn render(&self, request: &[u8]) -> std::result::Result<Output, String> {
        self.used.store(true, Ordering::Relaxed);
        let kept = self.idle().pop();
        let mut worker = match kept.map_or_else(|| self.worker(), Ok) {
            Ok(worker) => worker,
            Err(error) => return Err(self.broken.get_or_init(|| error.to_string()).clone()),
        };
        match worker.ask(request, &self.launch.control) {
            Ok(Answer::Rendered(text, spans)) => {
                self.idle().push(worker);
                let spans = spans.into_iter().map(|(start, end)| start..end);
                let spans = spans.filter(|span| !Range::is_empty(span)).collect();
                Ok(Output { text, spans, work: 0 })
            }
            Ok(Answer::Failed(reason)) => {
                self.idle().push(worker);
                Err(reason)
            }
            Ok(other) => Err(self.broken.get_or_init(|| format!("it answered {other:?}")).clone()),
            Err(reason) => Err(self.broken.get_or_init(|| reason).clone()),
        }
    }

    /// Why no further conversation can be rendered, if a process has failed.
    pub(super) fn broken(&self) -> Option<Error> {
        self.broken.get().map(|reason| Error::Template {
            name: self.name.clone(),
            line: 1,
            reason: format!("the process that renders it failed: {reason}"),
        })
    }

    fn worker(&self) -> Result<Worker> {
        let unusable = |reason: String| Error::option("template_engine", reason);
        let mut worker = Worker::start(&self.launch.command)
            .map_err(|error| unusable(format!("is \"python\", but no process starts: {error}")))?;
        match worker.ask(self.setup.as_bytes(), &self.launch.control) {
            Ok(Answer::Ready) => Ok(worker),
            Ok(Answer::Refused(line, reason)) => {
                Err(Error::Template { name: self.name.clone(), line, reason })
            }
            Ok(Answer::Missing(what)) => {
                Err(unusable(format!("is \"python\", but transformers cannot be used: {what}")))
            }
            Ok(other) => Err(unusable(format!("is \"python\", but the process says {other:?}"))),
            Err(_) if self.launch.control.is_cancelled() => Err(Error::Cancelled),
            Err(reason) => Err(unusable(format!("is \"python\", but {reason}"))),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that renders. Dropped, it is ended and waited for.
struct Worker {
    process: Child,
    questions: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

impl Worker {
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
        let (Some(questions), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both were asked for");
        };
        let (sender, answers) = channel();
        // It ends with the process, whose end is the end of what it reads.
        threads::start("fastpack-answers", move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { process, questions, answers })
    }

    /// The answer to a line, or why there is none.
    fn ask(&mut self, line: &[u8], control: &Control) -> std::result::Result<Answer, String> {
        let asked = self.questions.write_all(line).and_then(|()| self.questions.write_all(b"\n"));
        if asked.and_then(|()| self.questions.flush()).is_err() {
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

    /// How the process ended, in words.
    fn end(&mut self) -> String {
        match self.process.wait() {
            Ok(status) => format!("it ended by itself ({status})"),
            Err(error) => format!("it ended by itself ({error})"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended already is not there to be killed, and is waited for all the same.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
