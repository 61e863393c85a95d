//! A terminal that is drawn on as a whole, and given back as it was.
//!
//! While a [`Screen`] lives, keys arrive one by one and unseen, and drawing goes to the terminal's
//! other screen, so that what stood there before is there again afterwards. It is given back when
//! the value is dropped, and also by a panic in any thread before its message is written: a daemon
//! may end there and then. `Ctrl-C` keeps its meaning; stopping and dumping by key are off, because
//! nothing could be given back then.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::board::Style;

/// The other screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Plain letters, the cursor, the usual screen.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// From the first place on.
const HOME: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// What a terminal is taken for that does not know its own size.
const USUAL_SIZE: Size = Size { columns: 80, rows: 24 };
/// A key that is read at once: the longest sequences of keyboards are shorter.
const KEY_BYTES_MAX: usize = 32;

const ESCAPE: u8 = 0x1b;

/// The terminal and how it was before.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// How large a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A key somebody pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    /// Something else.
    Other,
    /// There is no terminal any more.
    Gone,
}

/// The terminal, as long as it is drawn on.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: OwnedFd,
}

/// Whether a person sits in front of it, whose terminal can be drawn on.
pub(crate) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && variable("TERM") != "dumb"
}

/// How a table is shown on standard output.
pub(crate) fn style_of_output(ascii: bool) -> Style {
    if !io::stdout().is_terminal() {
        return Style { colours: false, ascii, width: None };
    }
    let colours = variable("NO_COLOR").is_empty() && variable("TERM") != "dumb";
    let width = Some(size_of(rustix::stdio::stdout()).columns);
    Style { colours, ascii: ascii || !locale_is_utf8(), width }
}

/// The locale's character set. Where nobody has said anything, today's terminals take UTF-8.
fn locale_is_utf8() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable);
    let Some(locale) = said.into_iter().find(|value| !value.is_empty()) else { return true };
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[expect(clippy::disallowed_methods, reason = "what a terminal can show is only told this way")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn size_of(terminal: BorrowedFd<'_>) -> Size {
    match tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => USUAL_SIZE,
    }
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn enter() -> io::Result<Screen> {
        let terminal = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        for key in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
            modes.special_codes[key] = 0;
        }
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        let kept = rustix::io::fcntl_dupfd_cloexec(&terminal, 3)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((kept, before));
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        let screen = Screen { terminal };
        tcsetattr(&screen.terminal, OptionalActions::Drain, &modes)?;
        write(screen.terminal.as_fd(), ENTER.as_bytes())?;
        Ok(screen)
    }

    pub(crate) fn size(&self) -> Size {
        size_of(self.terminal.as_fd())
    }

    /// Shows these lines, which must fit, and nothing else.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut frame = String::from(HOME);
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(line);
            frame.push_str(CLEAR_REST_OF_LINE);
        }
        frame.push_str(CLEAR_BELOW);
        write(self.terminal.as_fd(), frame.as_bytes())
    }

    /// What keys arrive on.
    pub(crate) fn keyboard(&self) -> BorrowedFd<'static> {
        rustix::stdio::stdin()
    }

    /// The key that was pressed; to be asked when there is something to read.
    pub(crate) fn key(&self) -> Key {
        let mut first = [0];
        match rustix::io::read(self.keyboard(), &mut first) {
            Ok(0) => return Key::Gone,
            Ok(_) => {}
            Err(Errno::INTR | Errno::AGAIN) => return Key::Other,
            Err(_) => return Key::Gone,
        }
        if first != [ESCAPE] {
            let letter = char::from(first[0]);
            return if letter.is_ascii_graphic() { Key::Letter(letter) } else { Key::Other };
        }
        // The rest of a sequence comes with it; after a lone key there is none.
        let mut rest = [0; KEY_BYTES_MAX];
        let keyboard = self.keyboard();
        let mut more = [PollFd::new(&keyboard, PollFlags::IN)];
        let length = match poll(&mut more, Some(&Timespec::default())) {
            Ok(1..) => rustix::io::read(keyboard, &mut rest).unwrap_or(0),
            _ => 0,
        };
        match &rest[..length] {
            b"[A" | b"OA" => Key::Up,
            b"[B" | b"OB" => Key::Down,
            b"[5~" => Key::PageUp,
            b"[6~" => Key::PageDown,
            _ => Key::Other,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes the terminal what it was; twice does no harm.
fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((terminal, modes)) = before {
        // A terminal that is gone needs nothing.
        let _ = write(terminal.as_fd(), LEAVE.as_bytes());
        let _ = tcsetattr(&terminal, OptionalActions::Drain, &modes);
    }
}

/// Past the locks of the standard library, which others hold.
fn write(terminal: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
