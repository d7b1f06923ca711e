//! Go-style flags, of which only a few matter here.

use std::collections::HashMap;
use std::ffi::OsString;

/// Values by flag; the last occurrence wins.
#[derive(Debug, Default)]
pub(super) struct Flags(HashMap<String, String>);

impl Flags {
    /// Reads `--flag=value`, `--flag value` and `--flag`, with one dash or two. Never fails:
    /// unknown flags are those of a real kube-apiserver or etcd.
    pub(super) fn parse(line: &[OsString]) -> Self {
        let mut flags = HashMap::new();
        let mut words = line.iter().map(|word| word.to_string_lossy()).peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-') else {
                continue;
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => match words.next_if(|next| !next.starts_with('-')) {
                    Some(value) => (flag, value.into_owned()),
                    None => (flag, "true".to_owned()),
                },
            };
            flags.insert(name.to_owned(), value);
        }
        Self(flags)
    }

    /// The value of a flag, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Whether the program only describes its flags.
    pub(super) fn has_help(&self) -> bool {
        self.get("help").is_some() || self.get("h").is_some()
    }

    /// The first of a comma-separated list of values.
    pub(super) fn first(&self, name: &str) -> Option<&str> {
        self.get(name)?.split(',').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_a_flag_with_one_dash_or_two() {
        for (flag, expected) in [
            ("--help", true),
            ("-help", true),
            ("-h", true),
            ("help", false),
        ] {
            assert_eq!(
                Flags::parse(&[OsString::from(flag)]).has_help(),
                expected,
                "{flag}"
            );
        }
    }

    #[test]
    fn all_forms_of_flags_are_read() {
        let line = [
            "--a=1",
            "--b",
            "2",
            "-c=x=y",
            "--on",
            "--urls=http://a:1,http://b:2",
            "stray",
            "--empty=",
            "--a=3",
            "--last",
        ];
        let flags = Flags::parse(&line.map(OsString::from));
        for (name, expected) in [
            ("a", Some("3")),
            ("b", Some("2")),
            ("c", Some("x=y")),
            ("on", Some("true")),
            ("empty", None),
            ("last", Some("true")),
            ("absent", None),
        ] {
            assert_eq!(flags.get(name), expected, "{name}");
        }
        assert_eq!(flags.first("urls"), Some("http://a:1"));
    }
}
