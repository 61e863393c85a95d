//! `kron queue artifacts`: the files that a run produced, listed or fetched.

use std::fs::File;
use std::io::{BufWriter, Write};

use kron_core::finding::nearest;
use kron_queue::JobRun;
use kron_queue_api::{ARTIFACT_BYTES_HEADER, ARTIFACT_HASH_HEADER};
use sha2::{Digest as _, Sha256};

use crate::args::{OutputFormat, QueueArtifactsArgs};
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::queue::lookup::{self, JobOrRun};
use crate::queue::words::one_line;
use crate::text::{write_json, write_table};

pub(crate) fn run(args: &QueueArtifactsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let (meant, run) = lookup::run(&client, &args.job)?;
    let Some(run) = run else {
        let id = match meant {
            JobOrRun::Job(id) => id.to_string(),
            JobOrRun::Run(id) => id.to_string(),
        };
        let hint = "it has not run".to_owned();
        return Err(Failure::NoSuch { noun: "file of job", wanted: id, hint });
    };
    let Some(path) = &args.get else { return list(&run, args.format, out) };
    if !run.artifacts.iter().any(|artifact| artifact.path == *path) {
        let near = nearest(path, run.artifacts.iter().map(|artifact| artifact.path.as_str()));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "without `--get` its files are listed".to_owned(),
        };
        return Err(Failure::NoSuch { noun: "file", wanted: path.clone(), hint });
    }
    match &args.output {
        None => fetch(&client, &run, path, out)?,
        Some(to) => {
            let refused = |source| Failure::NotMade { path: to.clone(), source };
            let mut file = BufWriter::new(File::create(to).map_err(refused)?);
            fetch(&client, &run, path, &mut file)?;
            file.into_inner().map_err(|error| refused(error.into_error()))?;
        }
    }
    Ok(Exit::Ok)
}

fn list(run: &JobRun, format: OutputFormat, out: &mut dyn Write) -> Result<Exit, Failure> {
    match format {
        OutputFormat::Json => {
            for artifact in &run.artifacts {
                write_json(out, artifact)?;
            }
        }
        OutputFormat::Text if run.artifacts.is_empty() => {
            let yet = if run.status.is_none() { " yet: it runs" } else { "" };
            writeln!(out, "it has produced no files{yet}")?;
        }
        OutputFormat::Text => {
            let mut rows = vec![["file", "bytes", "sha256"].map(str::to_owned).to_vec()];
            rows.extend(run.artifacts.iter().map(|artifact| {
                let bytes = artifact.size_bytes.to_string();
                vec![one_line(&artifact.path), bytes, artifact.sha256.clone()]
            }));
            write_table(out, "", &rows)?;
        }
    }
    Ok(Exit::Ok)
}

/// Copies a file and compares it with what was recorded.
fn fetch(client: &Client, run: &JobRun, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let segments: Vec<String> = path.split('/').map(encode).collect();
    let at = format!("job-runs/{}/artifacts/{}", run.run_id, segments.join("/"));
    let (mut hash, mut offset) = (Sha256::new(), 0);
    loop {
        let piece = client.piece(&at, offset)?;
        out.write_all(&piece.bytes)?;
        hash.update(&piece.bytes);
        offset += piece.bytes.len() as u64;
        let whole = piece.header(ARTIFACT_BYTES_HEADER).and_then(|bytes| bytes.parse().ok());
        if piece.bytes.is_empty() || whole.is_some_and(|whole: u64| offset >= whole) {
            let recorded = piece.header(ARTIFACT_HASH_HEADER).unwrap_or_default();
            let fetched: String =
                hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            out.flush()?;
            if fetched != recorded {
                return Err(Failure::Differs { path: path.to_owned() });
            }
            return Ok(());
        }
    }
}
