//! What every fuzz target asserts about a parser, beyond that it does not panic.
//!
//! To add a target: write `fuzz_targets/<name>.rs` after the model of `duration.rs` (parse, check
//! the finding or print and parse again), give it a `[[bin]]` in `Cargo.toml`, and put twenty or so
//! hand-written seeds with telling names into `corpus/<name>/`. `fuzz/run` finds it by itself.

use kron_config::{Format, Loaded, Loader, Options, Source, lint};
use kron_core::{Finding, Host, TimingParser};

/// The job that `H` is resolved for.
pub const IDENTITY: &str = "prod/any";

const MESSAGE_BYTES_MAX: usize = 2_048;

/// A finding is short, printable and points at whole characters of its text.
pub fn check_finding(text: &str, finding: &Finding) {
    check_message(finding);
    assert!(
        text.get(finding.span.clone()).is_some(),
        "{:?} is no part of {} bytes: {finding}",
        finding.span,
        text.len()
    );
}

/// A finding without one text to point into is at least short and printable.
pub fn check_message(finding: &Finding) {
    let message = finding.to_string();
    assert!(message.len() < MESSAGE_BYTES_MAX, "{} bytes", message.len());
    assert!(!message.contains(char::is_control), "{message:?}");
}

/// A text of job definitions: diagnostics point into it, a second reading says the same, and every
/// timing prints as what parses back to it.
pub fn check_definitions(text: &str, format: &Format) {
    let source = Source::new("any", text);
    let read = || -> Loaded {
        let options = Options { host_name: Some("web-1".to_owned()), ..Options::default() };
        let mut loader = Loader::new(options);
        loader.load(&source, format);
        loader.finish()
    };
    let loaded = read();
    let lines: Vec<&str> = source.text().split('\n').collect();
    for diagnostic in &loaded.diagnostics {
        let place = diagnostic.location.as_ref().expect("a place");
        let line = lines.get(place.line - 1).expect("a line of the text");
        assert!((1..=line.chars().count() + 1).contains(&place.column), "{place}: {diagnostic}");
        let shown = diagnostic.to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }
    let again = read();
    assert_eq!(loaded.jobs, again.jobs);
    assert_eq!(loaded.diagnostics, again.diagnostics);

    let mut parser = TimingParser::new();
    for job in &loaded.jobs {
        let printed = job.timing.to_string();
        let timing = parser.parse(&printed, job.identity(), Host::default());
        assert_eq!(timing.as_ref(), Ok(&job.timing), "{printed}");
        let _ = lint(job);
    }
}
