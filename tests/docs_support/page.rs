//! Parses the command blocks of a page.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// A page with its command blocks.
#[derive(Debug)]
pub(crate) struct Page {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
    /// Inline code.
    pub(crate) spans: Vec<String>,
}

/// A fenced block, or a comment with commands.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) how: RunMode,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// Commands run one after the other.
    Run,
    /// The command keeps running while the rest of the page is run.
    Background,
    /// The commands are parsed only, for this reason.
    NotRun(String),
}

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) command: String,
    /// The expected output; empty if the page shows none.
    pub(crate) shown: Vec<String>,
}

/// An HTML comment that controls the following blocks.
#[derive(Debug, PartialEq, Eq)]
enum Directive {
    RunMode(RunMode),
    WholePage(String),
    /// Placeholders and their values.
    Where(Vec<(String, String)>),
    /// Setup commands that readers do not see.
    Before(Vec<Step>),
}

impl Page {
    /// Reads a page of the repository.
    pub(crate) fn open(root: &Path, path: &str) -> Self {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        Self::read(path, &text).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Parses a page; an error names the line.
    pub(crate) fn read(path: &str, text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.lines().collect();
        let mut page = Self {
            path: path.to_owned(),
            blocks: Vec::new(),
            spans: Vec::new(),
        };
        let mut prose = String::new();
        let mut how = None;
        let mut whole = None;
        let mut words: Vec<(String, String)> = Vec::new();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let begin = at;
            if line.trim_start().starts_with("<!--") {
                let comment = until(&lines, &mut at, |line| line.contains("-->"))
                    .ok_or_else(|| format!("line {}: a comment does not end", begin + 1))?;
                match directive(&comment, begin + 1)? {
                    Some(Directive::RunMode(mode)) => how = Some(mode),
                    Some(Directive::WholePage(reason)) => whole = Some(RunMode::NotRun(reason)),
                    Some(Directive::Where(values)) => words.extend(values),
                    Some(Directive::Before(steps)) => page.blocks.push(Block {
                        line: begin + 1,
                        how: RunMode::Run,
                        steps,
                    }),
                    None => {}
                }
            } else if let Some(language) = line.trim_start().strip_prefix("```") {
                at += 1;
                let indent = line.len() - line.trim_start().len();
                let content = until(&lines, &mut at, |line| line.trim() == "```")
                    .ok_or_else(|| format!("line {}: a block does not end", begin + 1))?;
                let content: Vec<&str> = content
                    .iter()
                    .take(content.len() - 1)
                    .map(|line| line.get(indent..).unwrap_or_default())
                    .collect();
                let steps = match language.trim() {
                    "sh" => script(&content, begin + 2),
                    "console" => transcript(&content, begin + 2)?,
                    _ => continue,
                };
                let steps = steps.into_iter().map(|step| replaced(step, &words));
                page.blocks.push(Block {
                    line: begin + 1,
                    how: how.take().or_else(|| whole.clone()).unwrap_or(RunMode::Run),
                    steps: steps.collect(),
                });
            } else {
                at += 1;
                if how.is_some() && !line.trim().is_empty() {
                    return Err(format!("line {at}: the comment before is about no block"));
                }
                prose.push_str(line);
                prose.push('\n');
            }
        }
        page.spans = spans(&prose);
        Ok(page)
    }

    /// Whether any block is run.
    pub(crate) fn runs(&self) -> bool {
        let mut blocks = self.blocks.iter();
        blocks.any(|block| !matches!(block.how, RunMode::NotRun(_)))
    }
}

/// All pages of a folder of the repository, recursively.
pub(crate) fn pages(root: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root.join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Lines up to and including the first that satisfies the predicate.
fn until<'a>(
    lines: &[&'a str],
    at: &mut usize,
    ends: impl Fn(&str) -> bool,
) -> Option<Vec<&'a str>> {
    let left = lines.get(*at..)?;
    let count = left.iter().position(|line| ends(line))? + 1;
    *at += count;
    left.get(..count).map(<[&str]>::to_vec)
}

fn directive(comment: &[&str], line: usize) -> Result<Option<Directive>, String> {
    let text = comment.join("\n");
    let text = text.trim().trim_start_matches("<!--");
    let text = text.trim_end_matches("-->").trim();
    let (kind, rest) = text
        .find([':', '\n'])
        .and_then(|end| text.split_at_checked(end))
        .map_or((text, ""), |(kind, rest)| (kind, rest[1..].trim()));
    let reason = || match rest {
        "" => Err(format!("line {line}: it has to say why it is not run")),
        reason => Ok(reason.to_owned()),
    };
    Ok(match kind.trim() {
        "not run" => Some(Directive::RunMode(RunMode::NotRun(reason()?))),
        "not run, all of the page" => Some(Directive::WholePage(reason()?)),
        "in the background" => Some(Directive::RunMode(RunMode::Background)),
        "before" => {
            let lines: Vec<&str> = rest.lines().collect();
            Some(Directive::Before(script(&lines, line + 1)))
        }
        "where" => {
            let words = rest.split_whitespace().map(|word| {
                let (from, to) = word
                    .split_once('=')
                    .ok_or_else(|| format!("line {line}: `{word}` is not NAME=VALUE"))?;
                Ok((from.to_owned(), to.to_owned()))
            });
            Some(Directive::Where(words.collect::<Result<_, String>>()?))
        }
        _ => None,
    })
}

/// The commands of an `sh` block, with continuation lines and here-documents.
fn script(lines: &[&str], first: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let begin = at;
        at += 1;
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let mut command = vec![*line];
        while command.last().is_some_and(|line| line.ends_with('\\')) && at < lines.len() {
            command.extend(lines.get(at));
            at += 1;
        }
        if let Some(word) = document(line) {
            let rest = until(lines, &mut at, |line| line == word).unwrap_or_default();
            command.extend(rest);
        }
        steps.push(Step {
            line: first + begin,
            command: command.join("\n"),
            shown: Vec::new(),
        });
    }
    steps
}

/// The commands of a `console` block, each with its expected output.
fn transcript(lines: &[&str], first: usize) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let command = line.strip_prefix("$ ");
        match (command, steps.last_mut()) {
            (Some(command), _) => steps.push(Step {
                line: first + at,
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            (None, None) => {
                return Err(format!("line {}: output before any command", first + at));
            }
            // A continuation line, after bash's secondary prompt.
            (None, Some(step)) if step.shown.is_empty() && line.starts_with("> ") => {
                step.command.push('\n');
                step.command.push_str(&line[2..]);
            }
            (None, Some(step)) => step.shown.push((*line).to_owned()),
        }
    }
    Ok(steps)
}

/// The delimiter of a here-document.
fn document(line: &str) -> Option<&str> {
    static BEGINS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"<<-?\s*['"]?([A-Za-z]+)['"]?"#).unwrap());
    let found = BEGINS.captures(line)?;
    found.get(1).map(|word| word.as_str())
}

/// Substitutes the placeholders in a step.
fn replaced(mut step: Step, words: &[(String, String)]) -> Step {
    for (from, to) in words {
        let word = Regex::new(&format!(r"\b{}\b", regex::escape(from))).unwrap();
        let put = |text: &str| word.replace_all(text, regex::NoExpand(to)).into_owned();
        step.command = put(&step.command);
        for line in &mut step.shown {
            *line = put(line);
        }
    }
    step
}

/// Inline code, which may span two lines.
fn spans(prose: &str) -> Vec<String> {
    static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`]+)`").unwrap());
    SPAN.captures_iter(prose)
        .filter_map(|found| found.get(1))
        .map(|span| span.as_str().split_whitespace().collect::<Vec<_>>())
        .map(|words| words.join(" "))
        .collect()
}
