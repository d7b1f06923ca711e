//! Splits shell snippets into commands, to find those of `medley`.

use std::iter::Peekable;
use std::str::Chars;

/// The words of every simple command in a piece of shell.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut split = Split {
        characters: text.chars().peekable(),
        found: Vec::new(),
        words: Vec::new(),
        word: None,
        redirected: false,
    };
    split.all();
    split.found
}

/// The `medley` command lines of a shell snippet, under any of its names, normalised to `medley`.
pub(crate) fn medley(text: &str) -> Vec<Vec<String>> {
    const NAMES: [&[&str]; 5] = [
        &["medley"],
        &["kubectl", "medley"],
        &["target/release/medley"],
        &["target/debug/medley"],
        &["cargo", "run", "--release", "--"],
    ];
    /// Shell keywords that may precede a command.
    const WORDS: [&str; 6] = ["do", "then", "until", "while", "if", "!"];
    let ours = |mut words: Vec<String>| {
        let begin = words
            .iter()
            .position(|word| !word.contains('=') && !WORDS.contains(&word.as_str()))?;
        words.drain(..begin);
        let name = NAMES.iter().find(|name| {
            words.len() >= name.len() && words.iter().zip(**name).all(|(a, b)| a == b)
        })?;
        words.splice(..name.len(), ["medley".to_owned()]);
        Some(words)
    };
    commands(text).into_iter().filter_map(ours).collect()
}

struct Split<'a> {
    characters: Peekable<Chars<'a>>,
    found: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is the file of a redirection.
    redirected: bool,
}

impl Split<'_> {
    fn all(&mut self) {
        while let Some(c) = self.characters.next() {
            match c {
                '#' if self.word.is_none() => {
                    while self.characters.next_if(|next| *next != '\n').is_some() {}
                }
                '\'' => self.plain(),
                '"' => self.quoted(),
                '\\' => match self.characters.next() {
                    Some('\n') | None => {}
                    Some(next) => self.push(next),
                },
                '$' => self.answer(),
                ' ' | '\t' => self.end_word(),
                '<' | '>' => {
                    self.end_word();
                    self.redirected = true;
                }
                '\n' | ';' | '|' | '&' | '(' | ')' => self.end_command(),
                _ => self.push(c),
            }
        }
        self.end_command();
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let word = self.word.take();
        if word.is_some() && std::mem::take(&mut self.redirected) {
            return;
        }
        self.words.extend(word);
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirected = false;
        if !self.words.is_empty() {
            self.found.push(std::mem::take(&mut self.words));
        }
    }

    /// Reads a single-quoted string.
    fn plain(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.characters.next_if(|c| *c != '\'') {
            self.push(c);
        }
        self.characters.next();
    }

    /// Reads a double-quoted string.
    fn quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.characters.next_if(|c| *c != '"') {
            match c {
                '\\' => {
                    if let Some(next) = self.characters.next() {
                        self.push(next);
                    }
                }
                '$' => self.answer(),
                _ => self.push(c),
            }
        }
        self.characters.next();
    }

    /// `$NAME` and `$(...)`: the value is unknown, so a fixed word stands for it.
    fn answer(&mut self) {
        if self.characters.next_if_eq(&'(').is_some() {
            self.inner();
        } else {
            let part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            while self.characters.next_if(part).is_some() {}
        }
        self.word.get_or_insert_default().push_str("answer");
    }

    /// Commands of a substitution, up to the closing parenthesis.
    fn inner(&mut self) {
        let mut depth = 1;
        let mut text = String::new();
        for c in self.characters.by_ref() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(c);
        }
        self.found.extend(commands(&text));
    }
}
