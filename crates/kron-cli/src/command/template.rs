//! `kron template`: what jobs and schedules of the queue have in common.

use std::io::Write;

use kron_queue::Template;
use serde_json::json;

use crate::args::{
    DefinitionLsArgs, OutputFormat, TemplateAddArgs, TemplateArgs, TemplateCommand,
    TemplateEditArgs, TemplateShowArgs,
};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::body::{self, Body};
use crate::queue::ids::Short;
use crate::queue::lookup;
use crate::queue::pages::Pages;
use crate::queue::words::{self, moment, one_line};
use crate::text::{write_json, write_table};

pub(crate) fn run(args: &TemplateArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.command {
        TemplateCommand::Add(args) => add(args, out),
        TemplateCommand::Ls(args) => ls(args, out),
        TemplateCommand::Show(args) => show(args, out),
        TemplateCommand::Edit(args) => edit(args, out),
        TemplateCommand::Rm(args) => rm(args, out),
    }
}

fn add(args: &TemplateAddArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let params = body::params(&args.params)?;
    let body = Body::new()
        .field("name", Some(&args.name))?
        .field("job_type", Some(&args.job_type))?
        .raw("params", params.as_deref())
        .field("priority", Some(args.priority))?
        .finish();
    let (template, _): (Template, bool) = client.make("job-templates", body)?;
    match args.format {
        OutputFormat::Json => write_json(out, &template)?,
        OutputFormat::Text => writeln!(out, "{}", template.template_id)?,
    }
    Ok(Exit::Ok)
}

fn ls(args: &DefinitionLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let mut templates: Vec<Template> = Pages::new(&client, "job-templates").rows(usize::MAX)?;
    templates.sort_by(|a, b| a.name.cmp(&b.name));
    match args.format {
        OutputFormat::Json => {
            for template in &templates {
                write_json(out, template)?;
            }
        }
        OutputFormat::Text if templates.is_empty() => writeln!(out, "there is no template")?,
        OutputFormat::Text => {
            let short = Short::among(templates.iter().map(|template| template.template_id));
            let header = ["name", "template", "type", "prio", "params"];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            rows.extend(templates.iter().map(|template| {
                vec![
                    one_line(&template.name),
                    short.of(&template.template_id),
                    template.job_type.clone(),
                    template.priority.to_string(),
                    one_line(&words::params(&template.params)),
                ]
            }));
            write_table(out, "", &rows)?;
        }
    }
    Ok(Exit::Ok)
}

fn show(args: &TemplateShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let template = lookup::template(&client, &args.template)?;
    write(out, args.format, &template)
}

fn edit(args: &TemplateEditArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let params = body::params(&args.params)?;
    let id = lookup::template(&client, &args.template)?.template_id;
    let body = Body::new()
        .field("name", args.name.as_ref())?
        .field("job_type", args.job_type.as_ref())?
        .raw("params", params.as_deref())
        .field("priority", args.priority)?
        .finish();
    let template: Template = client.patch(&format!("job-templates/{id}"), body)?;
    write(out, args.format, &template)
}

fn rm(args: &TemplateShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let template = lookup::template(&client, &args.template)?;
    client.delete::<()>(&format!("job-templates/{}", template.template_id))?;
    match args.format {
        OutputFormat::Json => {
            write_json(out, &json!({"done": "deleted", "template_id": template.template_id}))?;
        }
        OutputFormat::Text => writeln!(out, "{} is deleted", one_line(&template.name))?,
    }
    Ok(Exit::Ok)
}

fn write(out: &mut dyn Write, format: OutputFormat, template: &Template) -> Result<Exit, Failure> {
    if format == OutputFormat::Json {
        write_json(out, template)?;
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let mut rows = vec![
        ["id", &template.template_id.to_string()].map(str::to_owned).to_vec(),
        ["type", &template.job_type].map(str::to_owned).to_vec(),
        ["priority", &template.priority.to_string()].map(str::to_owned).to_vec(),
    ];
    let params = words::params(&template.params);
    if !params.is_empty() {
        rows.push(vec!["params".to_owned(), one_line(&params)]);
    }
    rows.push(vec!["created".to_owned(), moment(template.created_at, now)]);
    if template.updated_at != template.created_at {
        rows.push(vec!["changed".to_owned(), moment(template.updated_at, now)]);
    }
    writeln!(out, "{}", one_line(&template.name))?;
    write_table(out, "  ", &rows)?;
    Ok(Exit::Ok)
}
