//! `kron decide`: requests in, decisions out, a line each.
//!
//! Lines are read one at a time and bounded, so that any stream can be answered; a bad one is
//! answered with its error and the rest goes on.

use std::io::Write;

use kron_core::finding::foreign_message;
use kron_core::{Category, DecisionEvent, DecisionRecord, Finding, Request, TimingParser};
use serde::Serialize;

use crate::args::{DecideArgs, DecideFormat};
use crate::failure::{Exit, Failure};
use crate::lines::{LINE_BYTES_MAX, Line, Lines};

#[derive(Serialize)]
struct ErrorLine<'a> {
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    category: &'static str,
    message: &'a str,
}

pub(crate) fn run(args: &DecideArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut input = Lines::open(&args.file)?;
    let mut parser = TimingParser::new();
    let mut exit = Exit::Ok;
    while let Some(line) = input.next()? {
        let answer = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => continue,
            Line::Whole(line) => answer(line, args.format, &mut parser),
            Line::TooLong => Err(Finding::validation(
                0..0,
                format!("a request of more than {LINE_BYTES_MAX} bytes"),
            )),
        };
        match answer {
            Ok(text) => writeln!(out, "{text}")?,
            Err(finding) => {
                exit = Exit::Refused;
                let message = finding.to_string();
                let body = ErrorBody { category: finding.category.as_str(), message: &message };
                serde_json::to_writer(&mut *out, &ErrorLine { error: body })?;
                writeln!(out)?;
            }
        }
    }
    Ok(exit)
}

fn answer(line: &[u8], format: DecideFormat, parser: &mut TimingParser) -> Result<String, Finding> {
    let malformed = |what: String| Finding::error(Category::Configuration, 0..0, what);
    let text = std::str::from_utf8(line).map_err(|error| {
        malformed(format!("not UTF-8: invalid byte {}", error.valid_up_to() + 1))
    })?;
    // A list would be taken for the fields in their order.
    if !text.trim_start().starts_with('{') {
        return Err(malformed("not a request: expected a JSON object".to_owned()));
    }
    let request: Request = serde_json::from_str(text).map_err(|error| {
        // A request is one line, so its number says nothing.
        let error = error.to_string().replace(" at line 1 column ", " at column ");
        malformed(format!("not a request: {}", foreign_message(&error)))
    })?;
    let (placement, nominal) = request.resolve(parser)?;
    let decision = placement.decide(nominal)?;
    match format {
        DecideFormat::Log => Ok(DecisionEvent::of(&placement, &decision).to_text()),
        DecideFormat::Json => serde_json::to_string(&DecisionRecord::of(&placement, &decision))
            .map_err(|error| Finding::error(Category::System, 0..0, error.to_string())),
    }
}
