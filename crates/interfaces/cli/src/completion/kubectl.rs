//! Completion candidates in the format kubectl reads from plugins: one candidate per line with its
//! description after a tab, then a Cobra shell directive.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::names::Named;

/// Cobra's `ShellCompDirective`, of which two values are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    /// `ShellCompDirectiveDefault`: the shell completes file names.
    Files = 0,
    /// `ShellCompDirectiveNoFileComp`.
    Nothing = 4,
}

/// The candidates for the last argument.
pub(super) fn answer(mut command: Command, words: &[String]) -> String {
    // Propagates global options to subcommands.
    command.build();
    let (candidates, directive) = candidates(&command, words, Named::list);
    let mut text = String::new();
    for (word, help) in candidates {
        // Writing to a string cannot fail.
        let _ = if help.is_empty() {
            writeln!(text, "{word}")
        } else {
            writeln!(text, "{word}\t{help}")
        };
    }
    let _ = writeln!(text, ":{}", directive as u8);
    text
}

type Candidate = (String, String);

/// Lists the names of what an argument names, for the command line so far.
type ListNames = fn(Named, &Command, &[String]) -> Vec<String>;

fn candidates(command: &Command, words: &[String], list: ListNames) -> (Vec<Candidate>, Directive) {
    let (current, before) = match words.split_last() {
        Some((current, before)) => (current.as_str(), before),
        None => ("", &[][..]),
    };
    let place = Place::after(command, before);
    // An option without its value could not be parsed.
    let complete = match (place.waiting, before.split_last()) {
        (Some(_), Some((_, complete))) => complete,
        _ => before,
    };
    // An object may have the name of a subcommand.
    let mut path = place.path.iter().peekable();
    let arguments = before.iter().map(String::as_str);
    let given: Vec<&str> = arguments
        .filter(|word| path.next_if(|it| *it == word).is_none())
        .collect();
    let values = |argument: &Arg, current: &str, prefix: &str| {
        let (mut found, directive) = values(argument, current, prefix);
        if let Some(named) = Named::of(&place.path, argument) {
            let names = list(named, command, complete).into_iter();
            // Names that the command line has already are not offered again: of several, each is given once.
            let names = names.filter(|it| it.starts_with(current) && !given.contains(&it.as_str()));
            found.extend(names.map(|it| (format!("{prefix}{it}"), String::new())));
        }
        (found, directive)
    };
    if let Some(option) = place.waiting {
        return values(option, current, "");
    }
    if let Some((name, value)) = current.split_once('=').filter(|_| place.takes_options)
        && let Some(option) = named(place.command, name)
    {
        return values(option, value, &format!("{name}="));
    }
    if current.starts_with('-') && place.takes_options {
        return (options(place.command, current), Directive::Nothing);
    }
    let mut found = Vec::new();
    if place.positionals == 0 {
        let children = place.command.get_subcommands();
        let children =
            children.filter(|it| !it.is_hide_set() && it.get_name().starts_with(current));
        found.extend(children.map(|it| {
            let about = it.get_about().map(ToString::to_string).unwrap_or_default();
            (it.get_name().to_owned(), first_line(&about))
        }));
    }
    let positional = place.command.get_positionals().nth(place.positionals);
    let last = place.command.get_positionals().last();
    let many = last.filter(|it| it.get_num_args().is_some_and(|it| it.max_values() > 1));
    match positional.or(many) {
        Some(argument) => {
            let (more, directive) = values(argument, current, "");
            found.extend(more);
            (found, directive)
        }
        None => (found, Directive::Nothing),
    }
}

/// Parser state at the end of the command line.
struct Place<'a> {
    command: &'a Command,
    /// The names of the subcommands that lead to it.
    path: Vec<&'a str>,
    /// The option whose value comes next.
    waiting: Option<&'a Arg>,
    /// Number of positional arguments so far.
    positionals: usize,
    /// Whether options are still accepted: not after `--`.
    takes_options: bool,
}

impl<'a> Place<'a> {
    fn after(command: &'a Command, words: &[String]) -> Self {
        let mut place = Self {
            command,
            path: Vec::new(),
            waiting: None,
            positionals: 0,
            takes_options: true,
        };
        for word in words {
            if place.waiting.take().is_some() {
                continue;
            }
            if place.takes_options && word == "--" {
                place.takes_options = false;
            } else if place.takes_options && word.starts_with('-') && word.len() > 1 {
                place.waiting = waits(place.command, word);
            } else if let Some(child) = place.command.find_subcommand(word) {
                place.command = child;
                place.path.push(child.get_name());
                place.positionals = 0;
            } else {
                place.positionals += 1;
            }
        }
        place
    }
}

/// The option that this argument names, if its value is the next argument.
fn waits<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    if word.contains('=') {
        return None;
    }
    let option = if word.starts_with("--") {
        named(command, word)?
    } else {
        // In a group of short options the last one may take a value.
        let letter = word.chars().last()?;
        let mut all = command.get_arguments();
        all.find(|it| it.get_short() == Some(letter))?
    };
    let optional = option.get_num_args().is_some_and(|it| it.min_values() == 0);
    (option.get_action().takes_values() && !optional).then_some(option)
}

/// The option of a name, with its dashes.
fn named<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let long = name.strip_prefix("--")?;
    command
        .get_arguments()
        .find(|it| it.get_long() == Some(long))
}

fn options(command: &Command, current: &str) -> Vec<Candidate> {
    let visible = command.get_arguments().filter(|it| !it.is_hide_set());
    let mut found: Vec<Candidate> = visible
        .filter_map(|it| {
            let long = format!("--{}", it.get_long()?);
            let help = it.get_help().map(ToString::to_string).unwrap_or_default();
            long.starts_with(current).then(|| (long, first_line(&help)))
        })
        .collect();
    found.sort();
    found
}

fn values(argument: &Arg, current: &str, before: &str) -> (Vec<Candidate>, Directive) {
    let possible = argument.get_possible_values();
    let possible = possible.iter().filter(|it| !it.is_hide_set());
    let found: Vec<Candidate> = possible
        .filter(|it| it.get_name().starts_with(current))
        .map(|it| {
            let help = it.get_help().map(ToString::to_string).unwrap_or_default();
            (format!("{before}{}", it.get_name()), first_line(&help))
        })
        .collect();
    let names = argument.get_value_names().unwrap_or_default();
    let is_file = names.iter().any(|it| {
        ["FILE", "DIR", "PATH", "SNAPSHOT"]
            .iter()
            .any(|word| it.contains(word))
    });
    let directive = if is_file {
        Directive::Files
    } else {
        Directive::Nothing
    };
    (found, directive)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind has a name after itself, and one more.
    fn listed(named: Named, _: &Command, _: &[String]) -> Vec<String> {
        vec![format!("{named:?}").to_lowercase(), "other".to_owned()]
    }

    fn ask(words: &[&str]) -> (Vec<String>, Directive) {
        let mut command = crate::command("kubectl-medley");
        command.build();
        let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
        let (found, directive) = candidates(&command, &words, listed);
        (found.into_iter().map(|(it, _)| it).collect(), directive)
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        use Directive::{Files, Nothing};
        for (words, expected, directive) in [
            (&["app"][..], &["approve"][..], Nothing),
            (&["release", "mi"], &["migrate", "mirror"], Nothing),
            (&["status", "--ga"], &["--gate"], Nothing),
            (&["status", "-o", "j"], &["json"], Nothing),
            (&["status", "--output=y"], &["--output=yaml"], Nothing),
            (&["status", "gov"], &["governance"], Nothing),
            (&["status", "cpu", "gov"], &["governance"], Nothing),
            (&["images", "-o", "wide", "ref"], &["refresh"], Nothing),
            (&["--kubeconfig", "x", "app"], &[], Nothing),
            (&["plan", "--kubeconfig", ""], &[], Files),
            (&["completion", "po"], &["powershell"], Nothing),
            (&["status", "--", "--ga"], &[], Nothing),
            (&["nonsense", "x"], &[], Nothing),
        ] {
            let (found, printed) = ask(words);
            assert_eq!(
                (found, printed),
                (
                    expected.iter().map(|&it| it.to_owned()).collect(),
                    directive
                ),
                "{words:?}"
            );
        }
        assert!(ask(&[]).0.contains(&"status".to_owned()));
        assert!(!ask(&[""]).0.iter().any(|it| it.starts_with("__")));
    }

    #[test]
    fn names_of_objects_are_completed() {
        use Directive::Nothing;
        for (words, expected) in [
            (&["approve", ""][..], &["configs", "other"][..]),
            (&["approve", "o"], &["other"]),
            (&["images", "pin", "i"], &["images"]),
            (&["images", "pin", "-n", "n"], &["namespaces"]),
            (
                &["images", "pin", "--namespace=n"],
                &["--namespace=namespaces"],
            ),
            (&["status", "--context", "c"], &["contexts"]),
            (&["status", "--cluster", "c"], &["clusters"]),
            (&["status", "--user", "u"], &["users"]),
            (&["cpu", "explain", "v"], &["virtualmachines"]),
            (&["place", "explain", "p"], &["pods"]),
            (&["place", "release", "pods", ""], &["other"]),
            (&["release", "explain", "cl"], &["clusteroperators"]),
            (&["cpu", "what-if", "--remove-node", "n"], &["nodes"]),
        ] {
            let (found, directive) = ask(words);
            assert_eq!(
                (found, directive),
                (expected.iter().map(|&it| it.to_owned()).collect(), Nothing),
                "{words:?}"
            );
        }
    }

    #[test]
    fn completions_end_with_a_directive() {
        let words = ["status".to_owned(), "-o".to_owned(), String::new()];
        let printed = answer(crate::command("kubectl-medley"), &words);
        assert!(
            printed.contains("json\n") && printed.ends_with(":4\n"),
            "{printed}"
        );
        assert!(
            printed.starts_with("wide\tThe tree with untruncated messages"),
            "{printed}"
        );
    }
}
