//! A receiver of requests that really listens, and answers what it is told to.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) requests: mpsc::Receiver<Request>,
}

impl Receiver {
    /// Answers the n-th request, counted from 0, with what `answer` says: a status line and headers.
    pub(crate) fn new(answer: impl Fn(usize) -> String + Send + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let mut headers = HashMap::new();
                loop {
                    let mut line = String::new();
                    let _ = reader.read_line(&mut line);
                    let Some((name, value)) = line.trim().split_once(':') else { break };
                    headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
                }
                let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
                let mut body = vec![0; length];
                let _ = reader.read_exact(&mut body);
                let body = String::from_utf8(body).unwrap();
                // Before it is answered, so that whatever was told was heard.
                if sender.send(Request { headers, body }).is_err() {
                    return;
                }
                let _ = write!(
                    stream,
                    "HTTP/1.1 {}\r\nConnection: close\r\n\r\nthe answer",
                    answer(at)
                );
            }
        });
        Receiver { address, requests }
    }
}
