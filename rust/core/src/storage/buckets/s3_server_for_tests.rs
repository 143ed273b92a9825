//! [`S3Server`]: a small server of the protocol of S3 on this machine, for tests: puts, copies and uploads in parts, with the
//! condition that nothing has the name, and the list of the unfinished uploads.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::config::StorageOptions;

/// A server that holds objects in memory.
#[derive(Clone, Debug)]
pub(crate) struct S3Server {
    address: String,
    state: Arc<Mutex<ServerState>>,
}

#[derive(Debug, Default)]
pub(crate) struct ServerState {
    /// The objects by their keys, with the hash that they carry.
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// The unfinished uploads by their numbers: the key, the hash and the parts.
    pub(crate) uploads: BTreeMap<usize, Upload>,
    /// An object of somebody else, which comes to lie there before the next upload in parts is completed.
    pub(crate) comes_before_completion: Option<(String, Vec<u8>)>,
    /// True if the server looks at conditions.
    pub(crate) ignores_conditions: bool,
    /// The most uploads that a page of their list holds; all if 0.
    pub(crate) uploads_of_a_page: usize,
    /// Uploads that somebody else ends once the last page of the list has been asked for.
    pub(crate) removed_once_listed: Vec<usize>,
    begun: usize,
}

/// The key and the parts of an upload.
type Upload = (String, BTreeMap<usize, Vec<u8>>);

/// A request.
struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// The status, headers and body of an answer.
type ServerAnswer = (u16, Vec<(&'static str, String)>, String);

impl S3Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let server = Self { address, state: Arc::default() };
        let state = Arc::clone(&server.state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(&stream, &state));
            }
        });
        server
    }

    /// The options of a target in its bucket.
    pub(crate) fn options(&self) -> StorageOptions {
        let settings = [
            ("aws_endpoint", &*self.address),
            ("aws_allow_http", "true"),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", "key"),
            ("aws_secret_access_key", "secret"),
        ];
        let options = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        StorageOptions { options: options.into(), ..StorageOptions::default() }
    }

    /// Looks at the state, or changes it.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut ServerState) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers the requests of a connection.
fn serve(stream: &TcpStream, state: &Mutex<ServerState>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let is_head = request.method == "HEAD";
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, headers, body) = state.answer(request);
        drop(state);
        let mut lines = vec![format!("HTTP/1.1 {status} Answered")];
        if !headers.iter().any(|(name, _)| *name == "Content-Length") {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        lines.extend(headers.into_iter().map(|(name, value)| format!("{name}: {value}")));
        let body = if is_head { "" } else { &*body };
        let text = format!("{}\r\n\r\n{body}", lines.join("\r\n"));
        if Write::write_all(&mut &*stream, text.as_bytes()).is_err() {
            return;
        }
    }
}

/// The next request of a connection.
fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    });
    let key = path.trim_start_matches("/bucket").trim_start_matches('/').to_owned();
    Some(Request { method, key, query: query.collect(), headers, body })
}

impl ServerState {
    fn answer(&mut self, request: Request) -> ServerAnswer {
        let Request { method, key, query, headers, body } = request;
        let upload = query.get("uploadId").and_then(|it| it.parse::<usize>().ok());
        let source = headers.get("x-amz-copy-source").map(|it| it.trim_start_matches('/'));
        let source = source.map(|it| it.trim_start_matches("bucket/").to_owned());
        let is_new_only = headers.get("if-none-match").is_some_and(|it| it == "*");
        let etag = |bytes: &[u8]| format!("\"{}\"", &blake3::hash(bytes).to_hex()[..32]);
        let refused =
            (412, Vec::new(), "<Error><Code>PreconditionFailed</Code></Error>".to_owned());
        match (&*method, upload) {
            ("POST", None) if query.contains_key("uploads") => {
                self.begun += 1;
                self.uploads.insert(self.begun, (key, BTreeMap::new()));
                let text = format!(
                    "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>",
                    self.begun
                );
                (200, Vec::new(), text)
            }
            ("PUT", Some(upload)) => {
                let number = query["partNumber"].parse().expect("a number");
                let part = source.map_or(body, |from| self.objects[&from].clone());
                let etag = etag(&part);
                self.uploads.get_mut(&upload).expect("it has begun").1.insert(number, part);
                let text = format!("<CopyPartResult><ETag>{etag}</ETag></CopyPartResult>");
                (200, vec![("ETag", etag)], text)
            }
            ("POST", Some(upload)) => {
                if let Some((key, bytes)) = self.comes_before_completion.take() {
                    self.objects.insert(key, bytes);
                }
                if is_new_only && !self.ignores_conditions && self.objects.contains_key(&key) {
                    return refused;
                }
                let (_, parts) = self.uploads.remove(&upload).expect("it has begun");
                let bytes: Vec<u8> = parts.into_values().flatten().collect();
                let etag = etag(&bytes);
                self.objects.insert(key, bytes);
                let text = format!(
                    "<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
                );
                (200, Vec::new(), text)
            }
            ("DELETE", Some(upload)) => match self.uploads.remove(&upload) {
                Some(_) => (204, Vec::new(), String::new()),
                None => (404, Vec::new(), "<Error><Code>NoSuchUpload</Code></Error>".to_owned()),
            },
            ("GET", None) if key.is_empty() && query.contains_key("uploads") => {
                (200, Vec::new(), self.list_of_uploads(&query))
            }
            ("PUT", None) => {
                if is_new_only && !self.ignores_conditions && self.objects.contains_key(&key) {
                    return refused;
                }
                let object = source.map_or(body, |from| self.objects[&from].clone());
                let etag = etag(&object);
                self.objects.insert(key, object);
                (200, vec![("ETag", etag)], String::new())
            }
            ("HEAD", None) => match self.objects.get(&key) {
                Some(bytes) => {
                    let headers = vec![
                        ("Content-Length", bytes.len().to_string()),
                        ("ETag", etag(bytes)),
                        ("Last-Modified", "Fri, 27 Nov 2026 06:00:00 GMT".to_owned()),
                    ];
                    (200, headers, String::new())
                }
                None => (404, Vec::new(), String::new()),
            },
            _ => (501, Vec::new(), String::new()),
        }
    }

    /// A page of the list of unfinished uploads.
    fn list_of_uploads(&mut self, query: &BTreeMap<String, String>) -> String {
        let parameter = |name: &str| {
            query.get(name).map_or("", |it| it).replace("%2F", "/").replace("%20", " ")
        };
        let behind = (parameter("key-marker"), parameter("upload-id-marker").parse().unwrap_or(0));
        let prefix = parameter("prefix");
        let named = self.uploads.iter().map(|(number, (key, ..))| (key.clone(), *number));
        let mut listed: Vec<(String, usize)> =
            named.filter(|it| it.0.starts_with(&prefix) && *it > behind).collect();
        listed.sort();
        let is_truncated = (1..listed.len()).contains(&self.uploads_of_a_page);
        if is_truncated {
            listed.truncate(self.uploads_of_a_page);
        } else {
            self.removed_once_listed
                .drain(..)
                .for_each(|number| drop(self.uploads.remove(&number)));
        }
        let upload = |(key, number): &(String, usize)| {
            format!("<Upload><Key>{key}</Key><UploadId>{number}</UploadId></Upload>")
        };
        let uploads: String = listed.iter().map(upload).collect();
        let (key, number) = listed.pop().unwrap_or_default();
        format!(
            "<ListMultipartUploadsResult><IsTruncated>{is_truncated}</IsTruncated>\
             <NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{number}</NextUploadIdMarker>\
             {uploads}</ListMultipartUploadsResult>"
        )
    }
}
