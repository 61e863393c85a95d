//! What `docs/kubectl-kron.md` shows is what comes out.

use super::{AT, Scratch, run};

const DOCUMENT: &str = include_str!("../../../../../../docs/kubectl-kron.md");

/// The block between fences that begins so.
fn block(beginning: &str) -> &'static str {
    let (_, rest) = DOCUMENT
        .split_once(&format!("```text\n{beginning}"))
        .unwrap_or_else(|| panic!("no block begins with {beginning}"));
    let (text, _) = rest.split_once("```").expect("the block ends");
    text
}

#[test]
fn why_is_shown_as_it_is() {
    let (words, shown) = block("$ kubectl kron why ").split_once('\n').expect("it has an output");
    let words: Vec<&str> = ["why"].into_iter().chain(words.split(' ')).collect();
    let run = run("document-why", &words);
    assert_eq!((run.code, run.out.trim_end()), (Some(0), shown.trim_end()), "{}", run.err);
}

#[test]
fn steps_are_shown_as_they_are() {
    let scratch = Scratch::new("document-steps");
    let dir = format!("{}/kronjobs", scratch.path());
    let run = run(
        "document-steps-run",
        &["migrate", "-n", "prod", "report", "--at", AT, "--output-dir", &dir],
    );
    assert_eq!(run.code, Some(0), "{}", run.err);
    #[expect(clippy::disallowed_methods, reason = "a manifest that was just written")]
    let text = std::fs::read_to_string(format!("{dir}/report.yaml")).unwrap();
    let text = text.replace(&format!("{}/", scratch.path()), "");
    let shown = format!("# Run these two{}", block("# Run these two"));
    assert!(text.contains(&shown), "{text}");
}
