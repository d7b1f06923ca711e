//! `--token-auth-file`: one `token,user,uid,"group1,group2"` per line, as kube-apiserver reads it.

use std::collections::HashMap;

use super::{AUTHENTICATED, UserInfo};

/// Errors in a token file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// Too few columns.
    #[error(
        "line {line} of the token file has {found} columns, at least 3 are needed: token, user name, user uid"
    )]
    Columns {
        /// Line number from 1.
        line: usize,
        /// Number of columns.
        found: usize,
    },
    /// An unterminated quoted column.
    #[error("line {line} of the token file has a quoted column without an end")]
    Quote {
        /// Line number from 1.
        line: usize,
    },
}

/// Static tokens and their users.
#[derive(Debug, Clone, Default)]
pub struct StaticTokens(HashMap<String, UserInfo>);

impl StaticTokens {
    /// Parses a token file. Lines with an empty token are skipped, as upstream does.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let columns = split_columns(line).ok_or(TokenFileError::Quote { line: line_number })?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(TokenFileError::Columns {
                    line: line_number,
                    found: columns.len(),
                });
            };
            if token.is_empty() {
                continue;
            }
            let mut groups: Vec<String> = rest
                .first()
                .map(|groups| {
                    groups
                        .split(',')
                        .map(str::trim)
                        .filter(|g| !g.is_empty())
                        .map(str::to_owned)
                        .collect()
                })
                .unwrap_or_default();
            groups.push(AUTHENTICATED.to_owned());
            let user = UserInfo {
                name: name.clone(),
                uid: uid.clone(),
                groups,
                ..UserInfo::default()
            };
            tokens.insert(token.clone(), user);
        }
        Ok(Self(tokens))
    }

    /// Adds a token.
    pub fn insert(&mut self, token: &str, user: UserInfo) {
        self.0.insert(token.to_owned(), user);
    }

    /// The user of a token.
    pub(crate) fn find(&self, token: &str) -> Option<UserInfo> {
        self.0.get(token).cloned()
    }
}

/// Splits a CSV line; `None` for an unterminated quote.
fn split_columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut characters = line.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let mut column = String::new();
        if characters.next_if_eq(&'"').is_some() {
            loop {
                match characters.next()? {
                    '"' if characters.next_if_eq(&'"').is_some() => column.push('"'),
                    '"' => break,
                    other => column.push(other),
                }
            }
        }
        while let Some(character) = characters.next_if(|c| *c != ',') {
            column.push(character);
        }
        columns.push(column.trim_end().to_owned());
        if characters.next().is_none() {
            return Some(columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_uids_and_groups_are_read() {
        let tokens = StaticTokens::parse(
            "# comment\nt1,alice,1,\"devs,ops\"\n\nt2,bob,2\nt3,carol,3,solo\n,nobody,4\n",
        )
        .unwrap();
        let alice = tokens.find("t1").unwrap();
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1"));
        assert_eq!(alice.groups, ["devs", "ops", "system:authenticated"]);
        assert_eq!(tokens.find("t2").unwrap().groups, ["system:authenticated"]);
        assert_eq!(
            tokens.find("t3").unwrap().groups,
            ["solo", "system:authenticated"]
        );
        assert!(tokens.find("").is_none());
    }

    #[test]
    fn malformed_lines_are_reported() {
        let error = StaticTokens::parse("a,b,c\nt,u\n").unwrap_err();
        assert_eq!(error, TokenFileError::Columns { line: 2, found: 2 });
        let error = StaticTokens::parse("t,u,1,\"devs").unwrap_err();
        assert_eq!(error, TokenFileError::Quote { line: 1 });
    }
}
