//! A receiver of requests that really listens, and answers what it is told to.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
    /// A request that is broken off, by a daemon that is killed, is none.
    pub(crate) fn new(answer: impl Fn(usize) -> String + Send + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            let mut at = 0;
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let Ok(request) = receive(&stream) else { continue };
                // Before it is answered, so that whatever was told was heard.
                if sender.send(request).is_err() {
                    return;
                }
                let _ = write!(
                    stream,
                    "HTTP/1.1 {}\r\nConnection: close\r\n\r\nthe answer",
                    answer(at)
                );
                at += 1;
            }
        });
        Receiver { address, requests }
    }
}

/// The whole of a request.
fn receive(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut read_line = || -> io::Result<String> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.ends_with('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    };
    read_line()?;
    let mut headers = HashMap::new();
    loop {
        let line = read_line()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { headers, body: String::from_utf8(body).unwrap() })
}
