//! The README's tour, command by command: what it shows is what comes out.

use std::process::Command;

/// A command of the tour, the exit code it shows, and its output.
struct Shown {
    line: usize,
    words: Vec<String>,
    code: i32,
    output: String,
}

fn shown() -> Vec<Shown> {
    let text = include_str!("../../../../README.md");
    let mut all: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (line, content) in (1..).zip(text.lines()) {
        match (inside, content) {
            (_, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, content) => match content.strip_prefix("$ ") {
                Some(command) => all.push(Shown {
                    line,
                    words: shlex::split(command).expect("a command line"),
                    code: 0,
                    output: String::new(),
                }),
                None => {
                    let last = all.last_mut().expect("a command comes first");
                    match content.strip_prefix("? ") {
                        Some(code) => last.code = code.parse().expect("an exit code"),
                        None => last.output.extend([content, "\n"]),
                    }
                }
            },
            (false, _) => {}
        }
    }
    all
}

#[test]
fn the_readme_shows_real_output() {
    let all = shown();
    assert!(all.len() >= 5, "the tour has {} commands", all.len());
    for Shown { line, words, code, output } in all {
        assert_eq!(words[0], "kron", "line {line}");
        let run = Command::new(env!("CARGO_BIN_EXE_kron"))
            .args(&words[1..])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .output()
            .expect("it runs");
        let told = [run.stdout, run.stderr].concat();
        let told = String::from_utf8(told).expect("text");
        let told: String = told.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
        assert_eq!(told, output, "README.md:{line}: {words:?}");
        assert_eq!(run.status.code(), Some(code), "README.md:{line}");
    }
}
