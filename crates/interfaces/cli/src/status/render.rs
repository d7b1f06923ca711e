//! The tree as text, in columns.

use jiff::Timestamp;
use machinery::time::human_duration;

use super::tree::{Condition, Job, Meaning, Object, State};
use crate::terminal::{Tone, cut};

/// Objects shown per job, unless all are.
const SHOWN: usize = 10;
/// Minimum width of the message column: a narrower one is left out.
const NARROWEST: usize = 12;
/// Between columns.
const GAP: &str = "   ";
const HEADERS: [&str; 5] = ["NAME", "STATE", "REASON", "SINCE", "MESSAGE"];

/// Display options.
#[derive(Debug, Clone, Copy)]
pub(super) struct DisplayOptions {
    /// Ready objects, too.
    pub(super) all: bool,
    /// Width of the terminal.
    pub(super) width: Option<usize>,
    pub(super) colours: bool,
    pub(super) now: Timestamp,
}

/// A line before alignment.
#[derive(Default)]
struct Line {
    /// The branch characters before the name.
    branch: String,
    name: String,
    name_tone: Option<Tone>,
    state: String,
    state_tone: Option<Tone>,
    reason: String,
    since: String,
    message: String,
}

impl Line {
    fn name_width(&self) -> usize {
        self.branch.chars().count() + self.name.chars().count()
    }

    /// Whether it is a single sentence instead of a row.
    fn is_remark(&self) -> bool {
        self.state.is_empty()
    }
}

/// The tree.
pub(super) fn render(jobs: &[Job], options: &DisplayOptions) -> String {
    let mut lines = Vec::new();
    for job in jobs {
        of_job(job, options, &mut lines);
    }
    columns(&lines, options)
}

fn of_job(job: &Job, options: &DisplayOptions, lines: &mut Vec<Line>) {
    lines.push(Line {
        name: job.name.title().to_owned(),
        name_tone: Some(Tone::Heading),
        state: job.state.to_string(),
        state_tone: Some(tone(job.state)),
        message: job.message.clone(),
        ..Line::default()
    });
    if let Some(ownership) = job.ownership.as_ref().filter(|it| !it.is_quiet()) {
        lines.push(Line {
            branch: "│ ".to_owned(),
            name: format!("{}: {}", ownership.mode, ownership.message),
            name_tone: Some(Tone::Faint),
            ..Line::default()
        });
    }
    let wanted = |it: &&Object| options.all || !it.state.is_settled() || !it.conditions.is_empty();
    let wanted: Vec<&Object> = job.objects.iter().filter(wanted).collect();
    let limit = if options.all { wanted.len() } else { SHOWN };
    let shown: Vec<&Object> = wanted.iter().take(limit).copied().collect();
    let open = |it: &&Object| !it.state.is_settled();
    let waiting = wanted.iter().skip(limit).filter(|it| open(it)).count();
    let ready = job.objects.len() - shown.len() - waiting;
    let mut rest = Vec::new();
    if waiting > 0 {
        rest.push(format!("{waiting} more like these"));
    }
    if ready > 0 {
        let more = if shown.is_empty() { "" } else { " more" };
        let are = if ready == 1 { "is" } else { "are" };
        rest.push(format!("{ready}{more} {are} ready"));
    }
    for (at, object) in shown.iter().enumerate() {
        let last = at + 1 == shown.len() && rest.is_empty();
        of_object(object, "", last, options, lines);
    }
    if !rest.is_empty() {
        lines.push(Line {
            branch: "└─".to_owned(),
            name: format!("{}; --all shows them", rest.join(", ")),
            name_tone: Some(Tone::Faint),
            ..Line::default()
        });
    }
}

fn of_object(
    object: &Object,
    above: &str,
    last: bool,
    options: &DisplayOptions,
    lines: &mut Vec<Line>,
) {
    lines.push(Line {
        branch: format!("{above}{}", if last { "└─" } else { "├─" }),
        name: object.title(),
        name_tone: None,
        state: object.state.to_string(),
        state_tone: Some(tone(object.state)),
        reason: object.reason.clone().unwrap_or_default(),
        since: since(object.since, options.now),
        message: object.message.clone().unwrap_or_default(),
    });
    let below = format!("{above}{}", if last { "  " } else { "│ " });
    let conditions: Vec<&Condition> = object.conditions.iter().filter(|it| !it.quiet).collect();
    let parts = object.parts.iter();
    let parts: Vec<&Object> = parts
        .filter(|it| options.all || !it.state.is_settled())
        .collect();
    for (at, condition) in conditions.iter().enumerate() {
        let last = at + 1 == conditions.len() && parts.is_empty();
        lines.push(Line {
            branch: format!("{below}{}", if last { "└─" } else { "├─" }),
            name: condition.kind.clone(),
            name_tone: Some(Tone::Faint),
            state: condition.status.clone(),
            state_tone: meaning(condition.meaning()),
            reason: condition.reason.clone(),
            since: since(condition.last_transition_time, options.now),
            message: condition.message.clone(),
        });
    }
    for (at, part) in parts.iter().enumerate() {
        of_object(part, &below, at + 1 == parts.len(), options, lines);
    }
}

fn columns(lines: &[Line], options: &DisplayOptions) -> String {
    let rows = || lines.iter().filter(|line| !line.is_remark());
    let width = |header: &str, of: &dyn Fn(&Line) -> usize| {
        let widest = rows().map(of).max().unwrap_or_default();
        widest.max(header.len())
    };
    let widths = [
        width(HEADERS[0], &Line::name_width),
        width(HEADERS[1], &|line| line.state.chars().count()),
        width(HEADERS[2], &|line| line.reason.chars().count()),
        width(HEADERS[3], &|line| line.since.chars().count()),
    ];
    let fit = Fit::of(options.width, &widths);
    let mut text = String::new();
    let header = Line {
        name: HEADERS[0].to_owned(),
        state: HEADERS[1].to_owned(),
        reason: HEADERS[2].to_owned(),
        since: HEADERS[3].to_owned(),
        message: HEADERS[4].to_owned(),
        ..Line::default()
    };
    for line in std::iter::once(&header).chain(lines) {
        text.push_str(row(line, &widths, &fit, options.colours).trim_end());
        text.push('\n');
    }
    text
}

/// The columns that fit.
struct Fit {
    /// Columns, from the left.
    columns: usize,
    /// Width of the message column.
    message: Option<usize>,
}

impl Fit {
    /// Drops columns from the right until the rest fits.
    fn of(width: Option<usize>, widths: &[usize; 4]) -> Self {
        let Some(width) = width else {
            return Self {
                columns: HEADERS.len(),
                message: None,
            };
        };
        let taken = |columns: usize| {
            let widths = widths.iter().take(columns);
            widths.map(|it| it + GAP.len()).sum::<usize>()
        };
        let left = width.saturating_sub(taken(widths.len()));
        let fits = |columns: &usize| taken(*columns) <= width + GAP.len();
        let columns = if left >= NARROWEST {
            HEADERS.len()
        } else {
            (2..=widths.len()).rev().find(fits).unwrap_or(2)
        };
        Self {
            columns,
            message: Some(left),
        }
    }
}

fn row(line: &Line, widths: &[usize; 4], fit: &Fit, colours: bool) -> String {
    let painted = |text: &str, tone: Option<Tone>| match tone {
        Some(tone) => tone.paint(text, colours).into_owned(),
        None => text.to_owned(),
    };
    let name = painted(&line.name, line.name_tone);
    if line.is_remark() {
        return format!("{}{name}", line.branch);
    }
    // A message is one line, even if it contains line breaks.
    let words: Vec<&str> = line.message.split_whitespace().collect();
    let message = words.join(" ");
    let message = match fit.message {
        Some(fit) => cut(&message, fit).into_owned(),
        None => message,
    };
    let pad = |used: usize, width: usize| " ".repeat(width.saturating_sub(used));
    let [names, states, reasons, times] = *widths;
    let cells = [
        format!("{}{name}{}", line.branch, pad(line.name_width(), names)),
        format!(
            "{}{}",
            painted(&line.state, line.state_tone),
            pad(line.state.chars().count(), states)
        ),
        format!("{:<reasons$}", line.reason),
        format!("{:<times$}", line.since),
        message,
    ];
    cells[..fit.columns].join(GAP)
}

fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map(|time| human_duration(now.duration_since(time)))
        .unwrap_or_default()
}

fn tone(state: State) -> Tone {
    match state {
        State::Off => Tone::Faint,
        State::Ready => Tone::Good,
        State::Progressing | State::Unknown => Tone::Busy,
        State::Attention => Tone::Bad,
    }
}

fn meaning(meaning: Meaning) -> Option<Tone> {
    match meaning {
        Meaning::Good => Some(Tone::Good),
        Meaning::Busy => Some(Tone::Busy),
        Meaning::Bad => Some(Tone::Bad),
        Meaning::Neutral => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Name;
    use super::*;

    fn options(width: Option<usize>) -> DisplayOptions {
        DisplayOptions {
            all: false,
            width,
            colours: false,
            now: "2026-01-01T00:01:00Z".parse().unwrap(),
        }
    }

    fn jobs() -> Vec<Job> {
        let mut image = Object::new("Image", "fedora", State::Attention);
        image.namespace = Some("os".to_owned());
        let mut failed = Object::new("DataSource", "fedora-arm64", State::Attention);
        failed.reason = Some("NoImage".to_owned());
        failed.since = "2026-01-01T00:00:00Z".parse().ok();
        failed.message = Some("the registry\nhas none".to_owned());
        image.parts = vec![
            Object::new("DataSource", "fedora-amd64", State::Ready),
            failed,
        ];
        let well = Object::new("Image", "well", State::Ready);
        vec![
            Job::new(Name::Images).with(vec![image, well], "1 failed".to_owned()),
            Job::off(Name::Cpu, "x.kubevirt.io", "KubeVirt"),
        ]
    }

    #[test]
    fn ready_objects_are_counted_and_others_shown() {
        assert_eq!(
            render(&jobs(), &options(None)),
            "\
NAME                          STATE       REASON    SINCE   MESSAGE
Golden images                 Attention                     1 failed
├─Image/os/fedora             Attention
│ └─DataSource/fedora-arm64   Attention   NoImage   60s     the registry has none
└─1 more is ready; --all shows them
CPU models                    Off                           x.kubevirt.io is not installed in this cluster; it comes with KubeVirt
"
        );
    }

    #[test]
    fn messages_are_truncated_to_the_width() {
        for width in [45, 52, 60, 80, 100] {
            let text = render(&jobs(), &options(Some(width)));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let text = render(&jobs(), &options(Some(80)));
        assert!(text.contains("x.kubevirt.io is no…"), "{text}");
        let text = render(&jobs(), &options(Some(45)));
        assert!(
            text.starts_with("NAME                          STATE\n"),
            "{text}"
        );
    }

    #[test]
    fn long_lists_are_shortened_unless_all_is_set() {
        let pods = (0..30).map(|at| Object::new("Pod", format!("p{at}"), State::Attention));
        let job = Job::new(Name::Placement).with(pods.collect(), String::new());
        let few = render(std::slice::from_ref(&job), &options(None));
        assert_eq!(few.lines().count(), 2 + SHOWN + 1, "{few}");
        assert!(few.contains("20 more like these; --all"), "{few}");
        let all = DisplayOptions {
            all: true,
            ..options(None)
        };
        let all = render(&[job], &all);
        assert_eq!(all.lines().count(), 2 + 30, "{all}");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let plain = render(&jobs(), &options(None));
        let coloured = DisplayOptions {
            colours: true,
            ..options(None)
        };
        let coloured = render(&jobs(), &coloured);
        assert!(coloured.contains("\u{1b}[31mAttention\u{1b}[0m"));
        let mut stripped = String::new();
        for part in coloured.split('\u{1b}') {
            let rest = part.strip_prefix('[').and_then(|it| it.split_once('m'));
            stripped.push_str(rest.map_or(part, |(_, rest)| rest));
        }
        assert_eq!(stripped, plain);
    }
}
