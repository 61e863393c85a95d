//! `kron up`: a daemon in front of you, with everything it needs made if it is missing.
//!
//! It is `krond run` with other defaults, and nothing else decides anything here. On a terminal the
//! daemon's log goes to a file, which is bounded, and the jobs are shown instead; a daemon that
//! does not start, or ends for a reason of its own, has that reason shown in the end.

mod log_file;

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::JoinHandle;

use clap::{Parser as _, ValueEnum as _};
use krond::api::socket_path;
use krond::options::{Command, Options, RunOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use self::log_file::LogFile;
use crate::args::UpArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::live::{self, End, Jobs, Live, Manner, Sort, Stop};
use crate::screen::{self, Screen};

/// The job file of whoever names no other.
const CONFIG: &str = "kron.toml";
/// What it holds at first.
const SAMPLE: &str = include_str!("up/sample.toml");
/// The permissions of the state directory.
const DIRECTORY_MODE: u32 = 0o700;
/// What the daemon takes must not end another thread; and a new size of the terminal.
const SIGNALS: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD, Signal::SIGWINCH];

pub(crate) fn run(args: &UpArgs) -> Result<ExitCode, Failure> {
    let (config, is_new) = if args.config.is_empty() {
        let path = PathBuf::from(CONFIG);
        let is_new = make_sample(&path)?;
        (vec![path], is_new)
    } else {
        (args.config.clone(), false)
    };
    if is_new {
        say(&format!("made {CONFIG}: sample jobs, with comments"));
    }
    // As it was given: it is short, which the path of a socket has to be.
    let socket = args.socket.clone().unwrap_or_else(|| socket_path(&args.state_dir));
    let options = options(args, &config, &socket)?;
    if args.plain || !screen::is_there() {
        return Ok(krond::daemon::run(&options));
    }
    live::block(&SIGNALS)?;
    make_private(&args.state_dir)?;
    // A log that was sent elsewhere goes there.
    let log = match io::stderr().is_terminal() {
        true => Some(LogFile::take_standard_error(&args.state_dir)?),
        false => None,
    };
    let manner = manner(args, &config, is_new, log.as_ref());
    let shown = show(Client::at(socket), manner);
    let code = krond::daemon::run(&options);
    if let Ok((stop, thread)) = shown {
        stop.tell();
        // Whatever befell it, the terminal has been given back.
        let _ = thread.join();
    }
    if let Some(log) = log {
        log.give_back()?;
        if code == ExitCode::SUCCESS {
            say(&format!("stopped; what was done is recorded in {}", args.state_dir.display()));
        } else {
            say(log.last_words().trim_end());
            say(&format!("the log is in {}", log.path().display()));
        }
    }
    Ok(code)
}

/// Makes the sample, unless there is a file already; tells whether it did.
fn make_sample(path: &Path) -> Result<bool, Failure> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(SAMPLE.as_bytes()));
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(Failure::NotMade { path: path.to_owned(), source }),
    }
}

/// Makes the state directory, for nobody else to enter. One that is there is the daemon's to judge.
fn make_private(path: &Path) -> Result<(), Failure> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(Failure::NotMade { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The daemon's options, with its own defaults for everything that is not said here.
fn options(args: &UpArgs, config: &[PathBuf], socket: &Path) -> Result<RunOptions, Failure> {
    let mut words: Vec<OsString> = vec!["krond".into(), "run".into()];
    let mut option = |name: &str, value: &Path| {
        let mut word = OsString::from(format!("--{name}="));
        word.push(value);
        words.push(word);
    };
    config.iter().for_each(|path| option("config", path));
    option("state-dir", &args.state_dir);
    option("socket", socket);
    if let Some(format) = args.log_format.to_possible_value() {
        option("log-format", Path::new(format.get_name()));
    }
    match Options::try_parse_from(words) {
        Ok(Options { command: Command::Run(options) }) => Ok(options),
        Err(error) => Err(Failure::Unclear {
            message: error.kind().to_string(),
            hint: "`krond run --help` tells what a daemon takes".to_owned(),
        }),
    }
}

fn manner(args: &UpArgs, config: &[PathBuf], is_new: bool, log: Option<&LogFile>) -> Manner {
    let files: Vec<String> = config.iter().map(|path| path.display().to_string()).collect();
    let new = if is_new { " (new, a sample)" } else { "" };
    let log = log.map_or(String::new(), |log| format!("   log: {}", log.path().display()));
    let which = match &args.socket {
        Some(socket) => format!("--socket {}", socket.display()),
        None => format!("--state-dir {}", args.state_dir.display()),
    };
    Manner {
        notes: vec![
            format!("jobs: {}{new}{log}", files.join(", ")),
            format!("in another terminal: kron why JOB, logs JOB, run JOB, reload … {which}"),
        ],
        before: "starting".to_owned(),
        lost: "no answer".to_owned(),
        leaving: "q or Ctrl-C stops, twice: ends what runs".to_owned(),
        style: screen::style_of_output(args.ascii),
    }
}

/// Shows the jobs from a thread of its own, once the daemon answers.
fn show(client: Client, manner: Manner) -> io::Result<(Stop, JoinHandle<()>)> {
    // Rows that stay where they are can be watched.
    let jobs = Jobs { sort: Sort::Name };
    let mut live = Live::new(client, jobs, manner, &[Signal::SIGWINCH])?;
    let stop = live.stop();
    let thread = std::thread::Builder::new().name("show".to_owned()).spawn(move || {
        if live.wait_for_daemon().is_some() {
            return;
        }
        let Ok(screen) = Screen::enter() else { return };
        loop {
            let signal = match live.run(&screen) {
                Ok(End::Stopped) => return,
                Ok(End::Asked) => Signal::SIGINT,
                // Whoever closes the window wants an end; what runs may go on.
                Ok(End::Gone | End::Signalled) | Err(_) => Signal::SIGTERM,
            };
            let _ = kill(getpid(), signal);
            if signal == Signal::SIGTERM {
                return;
            }
        }
    })?;
    Ok((stop, thread))
}

fn say(text: &str) {
    // Whoever cannot be told sees it anyway.
    let _ = writeln!(io::stderr(), "{text}");
}
