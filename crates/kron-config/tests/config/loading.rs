//! What every test of this crate does: load a text, and say what was found on one line each.

use kron_config::{Format, Loaded, Loader, Options, Source};

/// Loads one text for a machine called `web-1`.
pub(crate) fn load(format: &Format, text: &str) -> Loaded {
    let options = Options { host_name: Some("web-1".to_owned()), ..Options::default() };
    let mut loader = Loader::new(options);
    loader.load(&Source::new("jobs", text), format);
    loader.finish()
}

/// Each diagnostic as `line:column message`, with `warning:` before what is only that.
pub(crate) fn said(loaded: &Loaded) -> Vec<String> {
    let said = loaded.diagnostics.iter().map(|diagnostic| {
        let place = diagnostic.location.as_ref().expect("a place");
        let level = if diagnostic.is_error() { "" } else { "warning: " };
        format!("{}:{} {level}{}", place.line, place.column, diagnostic.message)
    });
    said.collect()
}

/// Asserts that a text is found to have exactly these faults.
#[track_caller]
pub(crate) fn check_said(format: &Format, text: &str, expected: &[&str]) -> Loaded {
    let loaded = load(format, text);
    assert_eq!(said(&loaded), expected, "\n{text}");
    loaded
}
