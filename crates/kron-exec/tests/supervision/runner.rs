//! Runs the cases, each in a process of its own, a few at a time.

use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Cases that run at once: they mostly wait.
const AT_ONCE: usize = 4;
/// How long one case may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// What lines start with that are shown even when a case passes.
const FIGURE: &str = "     ";
const CASE_FLAG: &str = "--case";

/// A named test, and what it needs of the machine.
pub(crate) type Case = (&'static str, Needs, fn());

/// What a case needs: words that `KRON_TEST_WITHOUT` may hold.
pub(crate) type Needs = &'static [&'static str];

pub(crate) const NOTHING: Needs = &[];
/// Only root changes users.
pub(crate) const ROOT: Needs = &["root"];
/// Failures and deaths at exact system calls are injected by `strace`.
pub(crate) const STRACE: Needs = &["strace"];
pub(crate) const ROOT_AND_STRACE: Needs = &["root", "strace"];

struct Running {
    name: &'static str,
    child: Child,
    output: std::fs::File,
    since: Instant,
}

pub(crate) fn main(groups: &[&[Case]]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cases = || groups.iter().flat_map(|group| group.iter().copied());
    if let [flag, wanted] = &arguments[..]
        && flag == CASE_FLAG
    {
        let (_, _, run) = cases().find(|(name, ..)| name == wanted).expect("a known case");
        kron_exec::become_subreaper().expect("a subreaper");
        run();
        crate::place::wait_for_everybody();
        return ExitCode::SUCCESS;
    }
    // Flags of the usual harness select nothing here, words are parts of names.
    let words: Vec<&String> = arguments.iter().filter(|text| !text.starts_with('-')).collect();
    let mut selected: Vec<Case> = cases()
        .filter(|(name, ..)| words.is_empty() || words.iter().any(|word| name.contains(*word)))
        .collect();
    if arguments.iter().any(|flag| flag == "--list") {
        for (name, ..) in selected {
            say(&format!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let without = std::env::var("KRON_TEST_WITHOUT").unwrap_or_default();
    selected.retain(|(name, needs, _)| {
        let missing =
            needs.iter().find(|need| without.split([',', ' ']).any(|word| word == **need));
        if let Some(need) = missing {
            say(&format!("test {name} ... left out: it needs {need}"));
        }
        missing.is_none()
    });
    run_all(selected)
}

fn run_all(selected: Vec<Case>) -> ExitCode {
    let count = selected.len();
    let mut waiting = selected.into_iter();
    let mut running: Vec<Running> = Vec::new();
    let mut failed = Vec::new();
    loop {
        while running.len() < AT_ONCE
            && let Some((name, ..)) = waiting.next()
        {
            running.push(start(name));
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

/// Says something worth knowing about a case that passes.
pub(crate) fn note(figures: &str) {
    say(&format!("{FIGURE}{figures}"));
}

fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("standard output");
}
