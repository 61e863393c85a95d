//! What the loop does for others: the queue and the spools have runs too, and only the loop has
//! their sockets and processes.

use kron_state::RunId;

use crate::machine::{Event, Urgency};
use crate::{queue, spool};

/// Something that the loop is to do.
#[derive(Debug)]
pub(super) enum Errand {
    Launch(Launching),
    LetGo(RunId),
    Abandon(RunId),
    End(RunId, Urgency),
    Acknowledge(RunId),
    Tell(Event),
}

/// A run that is to be brought to its gate.
#[derive(Debug)]
pub(super) enum Launching {
    Queued(Box<queue::dispatcher::Start>),
    Spooled(Box<spool::attendant::Launch>),
}
