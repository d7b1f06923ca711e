//! `-o`: the formats of a command, and templates as in kubectl: `jsonpath`, `jsonpath-as-json` and `custom-columns`.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command};
use machinery::jsonpath::{CustomColumns, MissingFields, Template, align};
use serde::Serialize;
use serde_json::Value;

use super::{Data, OutputForm};

/// The formats with a template, as named in errors and in the help of `-o`.
const TEMPLATES: [&str; 5] = [
    "jsonpath=TEMPLATE",
    "jsonpath-file=FILE",
    "jsonpath-as-json=TEMPLATE",
    "custom-columns=HEADER:PATH,...",
    "custom-columns-file=FILE",
];

/// A value of `-o`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format<F> {
    /// A format of the command.
    Named(F),
    /// A template.
    Template(Arc<Printer>),
}

/// A compiled template.
#[derive(Debug, PartialEq)]
pub(crate) enum Printer {
    JsonPath(String, Template),
    JsonPathAsJson(String, Template),
    CustomColumns(CustomColumns),
}

/// A machine-readable format.
#[derive(Debug, Clone)]
pub(crate) enum DataFormat {
    Data(Data),
    Template(Arc<Printer>),
}

/// Flags of templates.
#[derive(Debug, Clone, Args)]
pub(crate) struct TemplateArguments {
    /// With -o jsonpath, ignore fields that the output does not have.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(hide_short_help = true)]
    allow_missing_template_keys: bool,

    /// Print no headers of custom columns.
    #[arg(skip)]
    no_headers: bool,
}

impl TemplateArguments {
    /// The flags with or without headers of custom columns.
    pub(super) fn without_headers(self, no_headers: bool) -> Self {
        Self { no_headers, ..self }
    }
}

impl<F: OutputForm> Format<F> {
    /// The machine-readable format, if it is one.
    pub(crate) fn data(&self) -> Option<DataFormat> {
        match self {
            Self::Named(form) => form.data().map(DataFormat::Data),
            Self::Template(printer) => Some(DataFormat::Template(Arc::clone(printer))),
        }
    }

    /// The format of the command, if it is one for people.
    pub(crate) fn named(&self) -> Option<F> {
        match self {
            Self::Named(form) => Some(*form),
            Self::Template(_) => None,
        }
    }
}

impl DataFormat {
    /// Serializes a value in this format.
    pub(crate) fn write(
        &self,
        value: &impl Serialize,
        arguments: &TemplateArguments,
    ) -> anyhow::Result<String> {
        let printer = match self {
            Self::Data(data) => return data.write(value),
            Self::Template(printer) => printer,
        };
        let value = serde_json::to_value(value).context("serializing the result")?;
        let missing = if arguments.allow_missing_template_keys {
            MissingFields::Ignore
        } else {
            MissingFields::Reject
        };
        match &**printer {
            Printer::JsonPath(text, template) => {
                let rendered = template.render(&value, missing);
                rendered.with_context(|| format!("executing jsonpath {text:?}"))
            }
            Printer::JsonPathAsJson(text, template) => {
                let rendered = template.render_json(&value, missing);
                rendered.with_context(|| format!("executing jsonpath {text:?}"))
            }
            Printer::CustomColumns(columns) => {
                let mut rows = Vec::new();
                if !arguments.no_headers {
                    rows.push(columns.headers());
                }
                for object in objects(&value) {
                    rows.push(columns.row(object).context("printing custom columns")?);
                }
                Ok(align(&rows))
            }
        }
    }
}

/// The items of a list, or the object itself.
fn objects(value: &Value) -> Vec<&Value> {
    let kind = value.get("kind").and_then(Value::as_str);
    let items = value.get("items").and_then(Value::as_array);
    match (kind.unwrap_or_default().ends_with("List"), items) {
        (true, Some(items)) => items.iter().collect(),
        _ => vec![value],
    }
}

/// Reads a value of `-o`: a format of the command, or a template.
#[derive(Debug, Clone)]
pub(crate) struct FormatParser<F>(PhantomData<F>);

impl<F: OutputForm> FormatParser<F> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F: OutputForm> TypedValueParser for FormatParser<F> {
    type Value = Format<F>;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = value.to_string_lossy();
        if let Some(form) = F::value_variants().iter().find(|form| {
            let named = form.to_possible_value();
            named.is_some_and(|named| named.matches(&text, false))
        }) {
            return Ok(Format::Named(*form));
        }
        let invalid = |kind: ErrorKind| {
            let mut error = clap::Error::new(kind).with_cmd(command);
            let argument = argument.map(ToString::to_string).unwrap_or_default();
            error.insert(ContextKind::InvalidArg, ContextValue::String(argument));
            error.insert(
                ContextKind::InvalidValue,
                ContextValue::String(text.to_string()),
            );
            error
        };
        match printer(&text) {
            Some(Ok(printer)) => Ok(Format::Template(Arc::new(printer))),
            Some(Err(why)) => {
                let why = format!("invalid value for -o: {why:#}\n");
                Err(clap::Error::raw(ErrorKind::ValueValidation, why).with_cmd(command))
            }
            None => {
                let mut error = invalid(ErrorKind::InvalidValue);
                let all = self.possible_values().into_iter().flatten();
                let all = all.map(|it| it.get_name().to_owned()).collect();
                error.insert(ContextKind::ValidValue, ContextValue::Strings(all));
                Err(error)
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let forms = F::value_variants().iter();
        let forms = forms.filter_map(clap::ValueEnum::to_possible_value);
        // Hidden: shells would complete the placeholders. The help names them.
        let templates = TEMPLATES.into_iter();
        let templates = templates.map(|it| PossibleValue::new(it).hide(true));
        Some(Box::new(forms.chain(templates)))
    }
}

/// The template of a value of `-o`; `None` if it is none.
fn printer(text: &str) -> Option<anyhow::Result<Printer>> {
    let (name, template) = text.split_once('=').unwrap_or((text, ""));
    if [
        "go-template",
        "go-template-file",
        "template",
        "templatefile",
    ]
    .contains(&name)
    {
        return Some(Err(anyhow!(
            "Go templates are not supported; use jsonpath=TEMPLATE, custom-columns=HEADER:PATH or json"
        )));
    }
    let mut known = TEMPLATES.iter().filter_map(|it| it.split_once('='));
    known.find(|(known, _)| *known == name)?;
    Some(compiled(name, template))
}

fn compiled(name: &str, template: &str) -> anyhow::Result<Printer> {
    if template.is_empty() && name != "custom-columns" {
        return Err(anyhow!("template format specified but no template given"));
    }
    let file = || {
        let path = Path::new(template);
        std::fs::read_to_string(path).with_context(|| format!("reading template {template}"))
    };
    let parse = |text: String| {
        let template = Template::parse(&text);
        let template = template.with_context(|| format!("parsing jsonpath {text}"))?;
        anyhow::Ok((text, template))
    };
    Ok(match name {
        "jsonpath-file" => {
            let (text, template) = parse(file()?)?;
            Printer::JsonPath(text, template)
        }
        "jsonpath-as-json" => {
            let (text, template) = parse(template.to_owned())?;
            Printer::JsonPathAsJson(text, template)
        }
        "custom-columns" => Printer::CustomColumns(CustomColumns::parse(template)?),
        "custom-columns-file" => Printer::CustomColumns(CustomColumns::parse_file(&file()?)?),
        _ => {
            let (text, template) = parse(template.to_owned())?;
            Printer::JsonPath(text, template)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Form;

    fn parse(text: &str) -> Result<Format<Form>, String> {
        let parser = FormatParser::<Form>::new();
        let command = Command::new("test");
        let parsed = parser.parse_ref(&command, None, text.as_ref());
        parsed.map_err(|error| error.to_string())
    }

    fn print(format: &str, missing: bool) -> anyhow::Result<String> {
        let value = json!({ "kind": "List", "items": [{ "name": "a", "n": 1 }, { "name": "b" }] });
        let arguments = TemplateArguments {
            allow_missing_template_keys: missing,
            no_headers: false,
        };
        let format = parse(format).map_err(|error| anyhow!(error))?;
        let data = format.data().context("no data")?;
        data.write(&value, &arguments)
    }

    #[test]
    fn templates_are_printed() -> anyhow::Result<()> {
        let all = print("jsonpath={.items[*].name}", true)?;
        assert_eq!(all, "a b");
        let columns = print("custom-columns=NAME:.name,N:{.n}", true)?;
        assert_eq!(columns, "NAME   N\na      1\nb      <none>\n");
        let error = print("jsonpath={.none}", false).unwrap_err();
        assert!(
            format!("{error:#}").contains("none is not found"),
            "{error:#}"
        );
        Ok(())
    }

    #[test]
    fn invalid_formats_are_rejected() {
        assert_eq!(parse("wide"), Ok(Format::Named(Form::Wide)));
        for (text, expected) in [
            ("go-template={{.items}}", "use jsonpath=TEMPLATE"),
            ("jsonpath", "no template given"),
            ("jsonpath={.a", "unclosed action"),
            ("custom-columns=a", "expected <header>:<json-path-expr>"),
            (
                "custom-columns-file=/nonexistent",
                "reading template /nonexistent",
            ),
            ("nonsense", "nonsense"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
