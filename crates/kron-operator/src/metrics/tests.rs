//! The text, read back by a reader that takes nothing but the format.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

type Labels = BTreeMap<String, String>;

/// One line with a number.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

/// Reads the whole text; anything that the format does not allow is the end of the test.
fn read(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    let mut samples: Vec<Sample> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && !kinds.contains_key(name), "{line}");
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert_eq!(name, current, "the type follows its help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
        } else {
            let sample = read_sample(line);
            let suffixes: &[&str] = match kinds[&current].as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let rest = sample.name.strip_prefix(&current).expect("it stands under its own type");
            assert!(suffixes.contains(&rest), "{line}");
            let same = |other: &Sample| other.name == sample.name && other.labels == sample.labels;
            assert!(!samples.iter().any(same), "twice: {line}");
            samples.push(sample);
        }
    }
    samples
}

fn read_sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let value = value.parse().expect("a number");
    let (name, labels) = match series.split_once('{') {
        None => (series, Labels::new()),
        Some((name, rest)) => {
            let inner = rest.strip_suffix('}').expect("a closing brace");
            let labels = inner.split(',').map(|pair| {
                let (key, value) = pair.split_once("=\"").expect("a label");
                let value = value.strip_suffix('"').expect("a closing quote");
                assert!(!value.contains(['"', '\\', '\n']), "{line}");
                (key.to_owned(), value.to_owned())
            });
            (name, labels.collect())
        }
    };
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    assert!(!name.is_empty() && name.chars().all(is_name), "{line}");
    Sample { name: name.to_owned(), labels, value }
}

fn written(metrics: &Metrics) -> Vec<Sample> {
    let mut text = String::new();
    metrics.write(&mut text).unwrap();
    read(&text)
}

/// The value of the one series with exactly these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels: Labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let found = samples.iter().find(|sample| sample.name == name && sample.labels == labels);
    found.map(|sample| sample.value)
}

#[test]
fn what_was_counted_is_told_under_its_labels() {
    let metrics = Metrics::default();
    for milliseconds in [5, 6, 900, 61_000] {
        metrics.started(Duration::from_millis(milliseconds));
    }
    metrics.outcome(Outcome::Missed, 3);
    metrics.request(Verb::Create, Resource::Jobs, Some(201), Duration::from_millis(3));
    metrics.request(Verb::Create, Resource::Jobs, Some(409), Duration::from_millis(3));
    metrics.request(Verb::Create, Resource::Jobs, Some(418), Duration::from_secs(11));
    metrics.request(Verb::Update, Resource::Leases, None, Duration::from_secs(5));
    metrics.set_queue_depth(Queue::Starts, 7);
    metrics.set_queue_depth(Queue::Starts, 4);
    metrics.set_kronjobs(State::Suspended, 2);
    metrics.watch_restarted(Resource::KronJobs);
    metrics.set_leading();
    let samples = written(&metrics);

    let lateness = "kron_start_lateness_seconds";
    let seconds = "kron_api_request_seconds";
    let jobs = [("verb", "create"), ("resource", "jobs")];
    let lease = [("verb", "update"), ("resource", "leases")];
    let with = |labels: [(&'static str, &'static str); 2], key, value| {
        vec![labels[0], labels[1], (key, value)]
    };
    let rows = [
        (format!("{lateness}_bucket"), vec![("le", "0.005")], 1.0),
        (format!("{lateness}_bucket"), vec![("le", "0.01")], 2.0),
        (format!("{lateness}_bucket"), vec![("le", "1")], 3.0),
        (format!("{lateness}_bucket"), vec![("le", "60")], 3.0),
        (format!("{lateness}_bucket"), vec![("le", "+Inf")], 4.0),
        (format!("{lateness}_count"), vec![], 4.0),
        (format!("{lateness}_sum"), vec![], 61.911),
        ("kron_outcomes_total".to_owned(), vec![("outcome", "missed")], 3.0),
        ("kron_outcomes_total".to_owned(), vec![("outcome", "executed")], 0.0),
        ("kron_api_requests_total".to_owned(), with(jobs, "code", "201"), 1.0),
        ("kron_api_requests_total".to_owned(), with(jobs, "code", "409"), 1.0),
        ("kron_api_requests_total".to_owned(), with(jobs, "code", "other"), 1.0),
        ("kron_api_requests_total".to_owned(), with(lease, "code", "none"), 1.0),
        (format!("{seconds}_bucket"), with(jobs, "le", "0.0025"), 0.0),
        (format!("{seconds}_bucket"), with(jobs, "le", "0.005"), 2.0),
        (format!("{seconds}_bucket"), with(jobs, "le", "10"), 2.0),
        (format!("{seconds}_count"), jobs.to_vec(), 3.0),
        (format!("{seconds}_sum"), lease.to_vec(), 5.0),
        ("kron_queue_depth".to_owned(), vec![("queue", "starts")], 4.0),
        ("kron_queue_depth".to_owned(), vec![("queue", "due")], 0.0),
        ("kron_kronjobs".to_owned(), vec![("state", "suspended")], 2.0),
        ("kron_watch_restarts_total".to_owned(), vec![("resource", "kronjobs")], 1.0),
        ("kron_leader".to_owned(), vec![], 1.0),
    ];
    for (name, labels, expected) in rows {
        assert_eq!(value(&samples, &name, &labels), Some(expected), "{name} {labels:?}");
    }
    metrics.set_following();
    assert_eq!(value(&written(&metrics), "kron_leader", &[]), Some(0.0));
}

#[test]
fn before_anything_happens_the_known_series_are_there_and_zero() {
    let samples = written(&Metrics::default());
    assert!(samples.iter().all(|sample| sample.value == 0.0));
    for queue in ["due", "starts", "statuses", "events", "cleanup"] {
        assert!(value(&samples, "kron_queue_depth", &[("queue", queue)]).is_some(), "{queue}");
    }
    for state in ["valid", "invalid", "suspended"] {
        assert!(value(&samples, "kron_kronjobs", &[("state", state)]).is_some(), "{state}");
    }
    // Verbs that are never used on a resource are not told.
    assert!(!samples.iter().any(|sample| sample.name.starts_with("kron_api")));
}

#[test]
fn every_label_leads_to_its_own_place() {
    let metrics = Metrics::default();
    for (at, verb) in Verb::ALL.into_iter().enumerate() {
        for (of, resource) in Resource::ALL.into_iter().enumerate() {
            for _ in 0..=(at * 10 + of) {
                metrics.request(verb, resource, Some(200), Duration::ZERO);
            }
        }
    }
    let samples = written(&metrics);
    for (at, verb) in Verb::ALL.into_iter().enumerate() {
        for (of, resource) in Resource::ALL.into_iter().enumerate() {
            let labels =
                [("verb", verb.as_str()), ("resource", resource.as_str()), ("code", "200")];
            let found = value(&samples, "kron_api_requests_total", &labels);
            let expected = u32::try_from(at * 10 + of + 1).map(f64::from).ok();
            assert_eq!(found, expected, "{labels:?}");
        }
    }
}

#[test]
fn nothing_is_lost_when_many_count_at_once() {
    let metrics = Arc::new(Metrics::default());
    let threads = [0; 4].map(|_| {
        let metrics = Arc::clone(&metrics);
        std::thread::spawn(move || {
            for _ in 0..10_000 {
                metrics.started(Duration::from_millis(1));
                metrics.outcome(Outcome::Executed, 1);
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let samples = written(&metrics);
    assert_eq!(value(&samples, "kron_start_lateness_seconds_count", &[]), Some(40_000.0));
    assert_eq!(value(&samples, "kron_start_lateness_seconds_sum", &[]), Some(40.0));
    let executed = [("outcome", "executed")];
    assert_eq!(value(&samples, "kron_outcomes_total", &executed), Some(40_000.0));
}
