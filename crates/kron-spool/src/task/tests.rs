use super::*;

const EXAMPLE: &str = r#"{
  "taskId": "task-123",
  "state": "PENDING",
  "createdAt": "2026-01-06T10:15:30Z",
  "payload": {
    "type": "EMAIL_SEND",
    "data": {
      "to": "user@example.com"
    }
  }
}
"#;

fn parse(text: &str) -> Result<Task, Fault> {
    Task::parse(text.as_bytes(), &TaskId::new("task-123").unwrap(), State::Pending)
}

/// The example with one line replaced.
fn with(line: &str, other: &str) -> String {
    assert!(EXAMPLE.contains(line));
    EXAMPLE.replace(line, other)
}

#[test]
fn the_example_of_the_format_goes_through_unchanged() {
    let task = parse(EXAMPLE).unwrap();
    assert_eq!(task.payload.task_type, "EMAIL_SEND");
    assert_eq!(task.created_at.to_string(), "2026-01-06T10:15:30.000Z");
    assert_eq!(task.to_json(), EXAMPLE);
}

#[test]
fn what_the_format_does_not_know_is_kept_to_the_byte() {
    let text = with(
        r#""state": "PENDING","#,
        r#""state": "PENDING", "x": [1.0, 1e400, "\u00e9"], "traceId":"a","#,
    );
    let text = text.replace("\"user@example.com\"", "12345678901234567890.10");
    let json = parse(&text).unwrap().to_json();
    assert!(json.contains(r#""x": [1.0, 1e400, "\u00e9"]"#), "{json}");
    assert!(json.contains(r#""traceId": "a""#), "{json}");
    assert!(json.contains(r#""to": 12345678901234567890.10"#), "{json}");
}

#[test]
fn every_field_comes_back() {
    let run = Run {
        run_id: RunId::from_bits(7),
        boot_id: "b".into(),
        supervisor: Process { pid: 1, start_ticks: 2 },
        command: Process { pid: 3, start_ticks: 4 },
    };
    let moment: Timestamp = "2026-01-06T10:15:30.123Z".parse().unwrap();
    let result = TaskResult {
        outcome: Outcome::Skipped,
        exit_code: Some(75),
        error: None,
        output: Some("é\n\"".into()),
    };
    let task = Task {
        attempts: 3,
        lost_attempts: 1,
        last_error: Some("exit code 1".into()),
        not_before: Some(moment),
        started_at: Some(moment),
        run: Some(run.clone()),
        completed_at: Some(moment),
        result: Some(result.clone()),
        ..parse(EXAMPLE).unwrap()
    };
    let again = parse(&task.to_json()).unwrap();
    assert_eq!(again.to_json(), task.to_json());
    assert_eq!((again.run, again.result), (Some(run), Some(result)));
    assert_eq!((again.attempts, again.lost_attempts), (3, 1));
    let value: serde_json::Value = serde_json::from_str(&task.to_json()).unwrap();
    assert_eq!(value["attempts"], 3);
    assert_eq!(value["lastError"], "exit code 1");
    assert_eq!(value["notBefore"], "2026-01-06T10:15:30.123Z");
    assert_eq!(value["result"]["outcome"], "SKIPPED");
}

#[test]
fn what_is_no_task_is_told_why() {
    let deep =
        |n: usize| with("\"user@example.com\"", &format!("{}1{}", "[".repeat(n), "]".repeat(n)));
    let rows: &[(&str, String, &str)] = &[
        ("empty", String::new(), "its JSON ends before it is complete"),
        ("half", EXAMPLE[..90].to_owned(), "its JSON ends before it is complete"),
        (
            "list",
            "[]".to_owned(),
            "it is not the JSON of a task: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "two",
            format!("{EXAMPLE}{{}}"),
            "it is not the JSON of a task: trailing characters at line 12 column 1",
        ),
        ("no id", with(r#"  "taskId": "task-123","#, ""), "it has no `taskId`"),
        (
            "other id",
            with("task-123", "task-124"),
            "its `taskId` is `task-124`, which is not its file's name",
        ),
        ("path", with("task-123", "../x"), "its `taskId` is `../x`, which is not its file's name"),
        (
            "number",
            with(r#""task-123""#, "7"),
            "`taskId`: invalid type: integer `7`, expected a string",
        ),
        ("state", with("PENDING", "RUNNING"), "its `state` is `RUNNING`, but it is in `pending/`"),
        ("case", with("PENDING", "pending"), "its `state` is `pending`, but it is in `pending/`"),
        (
            "date",
            with("2026-01-06T10:15:30Z", "yesterday"),
            "`createdAt`: `yesterday` is not a timestamp such as `2026-03-01T00:00:00.000Z`",
        ),
        (
            "twice",
            with(r#""state": "PENDING","#, r#""state": "PENDING", "state": "PENDING","#),
            "it has `state` twice",
        ),
        ("no type", with(r#""type": "EMAIL_SEND","#, ""), "it has no `payload.type`"),
        (
            "bad type",
            with("EMAIL_SEND", "a b"),
            "`payload.type`: `a b`: a type is made of letters, digits, `_`, `-` and `.`",
        ),
        (
            "payload",
            with("\"payload\": {", "\"payload\": 1, \"p\": {"),
            "`payload`: it is not an object",
        ),
        (
            "attempts",
            with(r#""state": "PENDING","#, r#""state": "PENDING", "attempts": -1,"#),
            "`attempts`: invalid value: integer `-1`, expected u32",
        ),
        ("deep", deep(TASK_DEPTH_MAX), "its JSON is nested more than 64 deep"),
        ("very deep", deep(100_000), "its JSON is nested more than 64 deep"),
    ];
    for (name, text, wanted) in rows {
        let fault = parse(text).map(|task| task.to_json()).expect_err(name);
        assert_eq!(fault.to_string(), *wanted, "{name}");
    }
    parse(&deep(TASK_DEPTH_MAX - 3)).unwrap();
    let id = TaskId::new("task-123").unwrap();
    assert_eq!(Task::parse(b"{\"a\": \"\xff\"}", &id, State::Pending).unwrap_err(), Fault::NotText);
}

#[test]
fn brackets_in_strings_are_no_depth() {
    let text = with("user@example.com", &format!("{}\\\\\\\"{}", "[".repeat(500), "{".repeat(500)));
    parse(&text).unwrap();
}
