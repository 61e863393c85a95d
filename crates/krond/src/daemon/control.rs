//! The thread that serves the control API: one runtime, one thread.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kron_core::Category;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::handle::Handle;
use crate::api;
use crate::log::Log;
use crate::machine::{Entry, Level};

/// How long answers that are on their way may take when the daemon leaves.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often it is looked whether they are out.
const FAREWELL_STEP: Duration = Duration::from_millis(2);

/// The thread.
#[derive(Debug)]
pub(super) struct ControlServer {
    leave: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ControlServer {
    pub(super) fn start(
        handle: Handle,
        listener: UnixListener,
        readers: Option<TcpListener>,
        log: Log,
    ) -> io::Result<ControlServer> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (leave, left) = oneshot::channel();
        let thread = thread::Builder::new().name("api".to_owned()).spawn(move || {
            serve(runtime, handle, listener, readers, left, log);
        })?;
        Ok(ControlServer { leave, thread })
    }

    /// Accepts nothing more, lets answers that are on their way out, and ends the thread.
    pub(super) fn close(self) {
        let _ = self.leave.send(());
        // If it has panicked, that was told already, and the daemon is leaving anyway.
        let _ = self.thread.join();
    }
}

fn serve(
    runtime: Runtime,
    handle: Handle,
    listener: UnixListener,
    readers: Option<TcpListener>,
    left: oneshot::Receiver<()>,
    log: Log,
) {
    runtime.block_on(async {
        let serving = async {
            match readers {
                None => api::serve(handle, listener).await,
                Some(readers) => {
                    let readers = api::serve_network(handle.clone(), readers);
                    tokio::try_join!(api::serve(handle, listener), readers).map(drop)
                }
            }
        };
        tokio::select! {
            result = serving => {
                if let Err(error) = result {
                    log.write(&Entry::new(Level::Error, "api_failed").error(
                        Category::System,
                        "serve the control API",
                        &error.to_string(),
                    ));
                }
            }
            _ = left => {}
        }
        let metrics = tokio::runtime::Handle::current().metrics();
        let answers_out = async {
            while metrics.num_alive_tasks() > 0 {
                tokio::time::sleep(FAREWELL_STEP).await;
            }
        };
        // Whoever is slower than that, or follows a log, is cut off.
        let _ = tokio::time::timeout(FAREWELL, answers_out).await;
    });
    // Not dropped, which would wait for what still asks a disk or the name service.
    runtime.shutdown_background();
}
