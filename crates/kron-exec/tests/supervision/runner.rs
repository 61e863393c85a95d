//! Runs the cases, each in a process of its own.
//!
//! Called without a name it runs all cases, a few at a time. Called with the name of one and
//! `--exact`, as `cargo nextest` does, this process is that case's. It knows as much of the usual
//! harness's command line as cargo and nextest use.

use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kron_testkit::needs::{self, Need};
use rustix::process::{Pid, Signal, kill_process_group};

/// Cases that run at once: they mostly wait.
const AT_ONCE: usize = 4;
/// After how long a case counts as one that hangs: many of them wait for each of a hundred runs.
const PATIENCE: Duration = Duration::from_secs(1_200);
/// What lines start with that are shown even when a case passes.
const FIGURE: &str = "     ";
pub(crate) const CASE_FLAG: &str = "--case";
/// Flags of the usual harness that a value follows.
const WITH_VALUE: &[&str] =
    &["--format", "--color", "--test-threads", "--logfile", "--shuffle-seed", "-Z"];

/// A named test, and what it needs of the machine.
pub(crate) type Case = (&'static str, Needs, fn());

/// What a case needs.
pub(crate) type Needs = &'static [Need];

pub(crate) const NOTHING: Needs = &[];
/// Only root changes users.
pub(crate) const ROOT: Needs = &[Need::Root];
/// Failures and deaths at exact system calls are injected by `strace`.
pub(crate) const STRACE: Needs = &[Need::Strace];
/// A terminal that `script` makes.
pub(crate) const TERMINAL: Needs = &[Need::Terminal];
pub(crate) const ROOT_AND_STRACE: Needs = &[Need::Root, Need::Strace];

struct Running {
    name: &'static str,
    child: Child,
    output: std::fs::File,
    since: Instant,
}

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    /// Parts of names, or whole ones; none for all cases.
    words: Vec<String>,
    skipped: Vec<String>,
    is_exact: bool,
    is_list: bool,
    /// Which of those that take long.
    ignored: Ignored,
}

/// What becomes of cases that run on request only.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Ignored {
    #[default]
    Left,
    Included,
    /// They, and no others.
    Alone,
}

impl Wanted {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Wanted {
        let mut wanted = Wanted::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => wanted.is_exact = true,
                "--list" => wanted.is_list = true,
                "--ignored" => wanted.ignored = Ignored::Alone,
                "--include-ignored" => wanted.ignored = Ignored::Included,
                "--skip" => wanted.skipped.extend(arguments.next()),
                flag if WITH_VALUE.contains(&flag) => drop(arguments.next()),
                // Other flags select nothing here.
                flag if flag.starts_with('-') => {}
                _ => wanted.words.push(argument),
            }
        }
        wanted
    }

    /// Whether a case is meant; `is_ignored` says that it runs on request only.
    fn includes(&self, name: &str, is_ignored: bool) -> bool {
        // As the usual harness, a list has them all.
        let fits = match self.ignored {
            Ignored::Left => !is_ignored || self.is_list,
            Ignored::Included => true,
            Ignored::Alone => is_ignored,
        };
        let meets = |word: &String| if self.is_exact { name == word } else { name.contains(word) };
        let is_selected = self.words.is_empty() || self.words.iter().any(meets);
        fits && is_selected && !self.skipped.iter().any(meets)
    }
}

/// Runs the cases of these groups; those of `ignored` only on request, as the usual harness does
/// with tests that are ignored.
pub(crate) fn main(groups: &[&[Case]], ignored: &[&[Case]]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all = || {
        let usual = groups.iter().flat_map(|group| group.iter().map(|case| (*case, false)));
        usual.chain(ignored.iter().flat_map(|group| group.iter().map(|case| (*case, true))))
    };
    if let [flag, wanted] = &arguments[..]
        && flag == CASE_FLAG
    {
        let named = all().find(|((name, ..), _)| name == wanted);
        let ((_, _, run), _) = named.expect("a known case");
        return run_here(run);
    }
    let wanted = Wanted::from_arguments(arguments.into_iter());
    let is_wanted = |((name, ..), is_ignored): &(Case, bool)| wanted.includes(name, *is_ignored);
    let mut selected: Vec<Case> = all().filter(is_wanted).map(|(case, _)| case).collect();
    if wanted.is_list {
        for (name, ..) in selected {
            say(&format!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    selected.retain(|(name, needs, _)| {
        let declined = needs::declined(needs);
        if let Some(need) = declined {
            needs::report_left_out(name, need);
        }
        declined.is_none()
    });
    match selected[..] {
        [(_, needs, run)] if wanted.is_exact => {
            needs::require(needs);
            // Nothing else watches over it.
            nix::unistd::alarm::set(PATIENCE.as_secs() as u32);
            run_here(run)
        }
        _ => run_all(selected),
    }
}

/// Runs a case in this process.
fn run_here(run: fn()) -> ExitCode {
    kron_exec::become_subreaper().expect("a subreaper");
    run();
    crate::place::wait_for_everybody();
    ExitCode::SUCCESS
}

fn run_all(selected: Vec<Case>) -> ExitCode {
    let count = selected.len();
    let mut waiting = selected.into_iter();
    let mut running: Vec<Running> = Vec::new();
    let mut failed = Vec::new();
    loop {
        while running.len() < AT_ONCE
            && let Some((name, needs, _)) = waiting.next()
        {
            match needs::missing(needs) {
                Some(missing) => failed.push((name, missing)),
                None => running.push(start(name)),
            }
        }
        if running.is_empty() {
            break;
        }
        let mut still = Vec::new();
        for mut case in running {
            match case.child.try_wait().expect("a child") {
                Some(status) => {
                    let word = if status.success() { "ok" } else { "FAILED" };
                    let time = case.since.elapsed().as_secs_f64();
                    say(&format!("test {} ... {word} ({time:.2} s)", case.name));
                    let text = text_of(&mut case.output);
                    if !status.success() {
                        failed.push((case.name, format!("{status}\n{text}")));
                    } else {
                        text.lines().filter(|line| line.starts_with(FIGURE)).for_each(say);
                    }
                }
                None if case.since.elapsed() > PATIENCE => {
                    let group = Pid::from_child(&case.child);
                    kill_process_group(group, Signal::KILL).expect("killed");
                    still.push(case);
                }
                None => still.push(case),
            }
        }
        running = still;
        std::thread::sleep(Duration::from_millis(2));
    }
    for (name, text) in &failed {
        say(&format!("\n---- {name}: {text}"));
    }
    say(&format!("\n{} cases, {} failed", count, failed.len()));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn start(name: &'static str) -> Running {
    use std::os::unix::process::CommandExt;

    let output = tempfile::tempfile().expect("a temporary file");
    let stream = || Stdio::from(output.try_clone().expect("a descriptor"));
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args([CASE_FLAG, name])
        .stdin(Stdio::null())
        .stdout(stream())
        .stderr(stream())
        .process_group(0)
        .spawn()
        .expect("a process for the case");
    Running { name, child, output, since: Instant::now() }
}

fn text_of(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("rewound");
    file.read_to_end(&mut bytes).expect("read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Prints something worth knowing about a case that passes.
pub(crate) fn note(figures: &str) {
    say(&format!("{FIGURE}{figures}"));
}

fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("standard output");
}
