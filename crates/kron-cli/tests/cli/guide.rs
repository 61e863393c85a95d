//! The guide for those who come from elsewhere: what it shows is what comes out, and its job files are
//! sound.
//!
//! A block of a crontab or of TOML is a file, named by the last word in backticks before it. What
//! follows a `$` in a `console` block is run in the directory of those files.

use std::path::Path;
use std::process::Command;

/// A block between fences.
struct Block {
    /// Where it begins.
    line: usize,
    language: String,
    /// The last word in backticks before it.
    named: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let guide = include_str!("../../../../docs/migrating.md");
    let mut blocks: Vec<Block> = Vec::new();
    let mut named = String::new();
    let mut inside = false;
    for (line, content) in (1..).zip(guide.lines()) {
        match (inside, content.strip_prefix("```")) {
            (false, Some(language)) => {
                let (language, text) = (language.to_owned(), String::new());
                blocks.push(Block { line, language, named: named.clone(), text });
                inside = true;
            }
            (true, Some(_)) => inside = false,
            (true, None) => blocks.last_mut().expect("a block").text.extend([content, "\n"]),
            (false, None) => {
                if let Some(word) = content.rsplit('`').nth(1) {
                    word.clone_into(&mut named);
                }
            }
        }
    }
    blocks
}

fn kron(dir: &Path, line: &str) -> (Option<i32>, String) {
    let words = shlex::split(line).expect("a command line");
    assert_eq!(words[0], "kron", "{line}");
    let run = Command::new(env!("CARGO_BIN_EXE_kron"))
        .args(&words[1..])
        .current_dir(dir)
        .output()
        .expect("it runs");
    let told = String::from_utf8([run.stdout, run.stderr].concat()).expect("text");
    (run.status.code(), told.lines().flat_map(|line| [line.trim_end(), "\n"]).collect())
}

#[test]
fn the_guide_shows_real_output_and_sound_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut commands, mut files) = (0, 0);
    for Block { line, language, named, text } in blocks() {
        match language.as_str() {
            "crontab" | "toml" => {
                assert!(named.ends_with(&language), "line {line}: {named}");
                std::fs::write(dir.path().join(&named), text).expect("a file");
                files += 1;
                if language == "toml" {
                    let (code, told) = kron(dir.path(), &format!("kron lint --strict {named}"));
                    assert_eq!(code, Some(0), "line {line}: {told}");
                }
            }
            "console" => {
                let mut steps = text.split("$ ");
                assert_eq!(steps.next(), Some(""), "line {line}");
                for step in steps {
                    let (command, mut output) = step.split_once('\n').expect("a line");
                    let mut expected = 0;
                    if let Some((code, rest)) =
                        output.strip_prefix("? ").and_then(|rest| rest.split_once('\n'))
                    {
                        expected = code.parse().expect("an exit code");
                        output = rest;
                    }
                    let (code, told) = kron(dir.path(), command);
                    assert_eq!(told, output, "line {line}: {command}");
                    assert_eq!(code, Some(expected), "line {line}: {command}");
                    commands += 1;
                }
            }
            // Other commands need root, cron or systemd; see the tests of krond.
            other => assert_eq!(other, "text", "line {line}"),
        }
    }
    assert!(commands >= 4 && files >= 3, "{commands} commands, {files} files");
}
