//! A stream whose writer does not wait for ever.
//!
//! A peer that asks and then takes nothing would keep its answer in memory and its slot for itself
//! as long as a connection may live. Writing to it fails once it has taken nothing for a while;
//! every byte it takes begins that while anew. Reading is left alone: the server has its own
//! patience with requests.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The stream.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs out when the peer has taken nothing for too long; absent while nothing waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waiting: None }
    }

    /// What an attempt to write came to, unless it waits for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.waiting = None;
            return attempt;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(context, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, attempt)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    /// Runs with a clock that moves only while everything waits, to the next time that is waited
    /// for: how busy the machine is changes nothing.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up() {
        block_on(async {
            let (ours, theirs) = tokio::io::duplex(64);
            let since = Instant::now();
            let error = Patient::new(ours, PATIENCE).write_all(&[0; 65]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(since.elapsed().as_secs(), PATIENCE.as_secs());
            drop(theirs);
        });
    }

    #[test]
    fn a_peer_that_takes_a_little_now_and_then_gets_everything() {
        block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1);
            let sent: Vec<u8> = (0..20).collect();
            let sending = sent.clone();
            let mut ours = Patient::new(ours, PATIENCE);
            let (written, taken) =
                tokio::join!(async move { ours.write_all(&sending).await }, async {
                    let mut taken = Vec::new();
                    // More than its patience altogether, a little less at a time.
                    for _ in 0..sent.len() {
                        sleep(PATIENCE - Duration::from_secs(1)).await;
                        taken.push(theirs.read_u8().await.unwrap());
                    }
                    taken
                });
            written.unwrap();
            assert_eq!(taken, sent);
        });
    }
}
