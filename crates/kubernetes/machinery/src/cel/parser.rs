//! From source to tree.
//!
//! A parser of our own, because rules come from strangers: its recursion is bounded and it needs
//! linear time. It stops at the first error; [`super::syntax`] then describes the syntax errors
//! of the source as cel-go does.

use super::ast::{Element, Entry, Expr, Kind, Literal, MAX_DEPTH};
use super::issue::Issue;
use super::lexer::{Token, TokenKind, tokenize};
use super::macros;
use super::names::RESERVED;
use super::syntax;

/// cel-go's default limit on the size of an expression.
const MAX_CODE_POINTS: usize = 100_000;
/// How the message about trees that are too high begins.
const TOO_DEEP: &str = "expression recursion limit exceeded";
/// Stands for the errors that [`syntax::errors`] finds.
pub(super) const SYNTAX_ERROR: &str = "Syntax error";

/// A parsed expression.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    /// The tree.
    pub(crate) expr: Expr,
    /// Number of nodes.
    pub(crate) nodes: usize,
}

/// Parses `source`.
pub(crate) fn parse(source: &str) -> Result<Parsed, Vec<Issue>> {
    let size = source.chars().count();
    if size > MAX_CODE_POINTS {
        let message = format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"
        );
        return Err(vec![Issue {
            line: 1,
            column: 0,
            message,
        }]);
    }
    let tokens = tokenize(source).map_err(|issue| described(source, issue))?;
    let mut parser = Parser {
        source,
        tokens,
        at: 0,
        nodes: 0,
        nesting: 0,
    };
    let result = parser.expr().and_then(|expr| match parser.kind() {
        TokenKind::End => Ok(expr),
        _ => Err(parser.unexpected()),
    });
    match result {
        Ok(expr) => Ok(Parsed {
            expr,
            nodes: parser.nodes,
        }),
        Err(issue) => Err(described(source, issue)),
    }
}

/// All syntax errors, and `issue` if it is another: cel-go reports both.
fn described(source: &str, issue: Issue) -> Vec<Issue> {
    if issue.message.starts_with(TOO_DEEP) {
        return vec![issue];
    }
    let mut issues = syntax::errors(source);
    if issue.message != SYNTAX_ERROR || issues.is_empty() {
        issues.push(issue);
    }
    issues
}

/// State of a parse; also what macros build their nodes with.
pub(crate) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    at: usize,
    nodes: usize,
    nesting: u16,
}

impl Parser<'_> {
    fn kind(&self) -> &TokenKind {
        self.tokens
            .get(self.at)
            .map_or(&TokenKind::End, |t| &t.kind)
    }

    fn pos(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |t| t.pos)
    }

    fn is(&self, punct: &str) -> bool {
        matches!(self.kind(), TokenKind::Punct(p) if *p == punct)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, punct: &str) -> Result<usize, Issue> {
        let pos = self.pos();
        if self.eat(punct) {
            Ok(pos)
        } else {
            Err(self.unexpected())
        }
    }

    /// An issue at a place.
    pub(crate) fn issue(&self, pos: usize, message: impl Into<String>) -> Issue {
        Issue::at(self.source, pos, message)
    }

    fn unexpected(&self) -> Issue {
        self.issue(self.pos(), SYNTAX_ERROR)
    }

    /// A node; fails if the tree gets too high.
    pub(crate) fn node(&mut self, pos: usize, kind: Kind) -> Result<Expr, Issue> {
        // The height of the tree, besides the nesting of the source: `a.b.c...` nests nothing, but evaluation
        // recurses through each selection.
        let below = kind.children().iter().map(|e| e.depth).max().unwrap_or(0);
        if below >= MAX_DEPTH {
            return Err(self.too_deep(pos));
        }
        let id = self.nodes;
        self.nodes += 1;
        Ok(Expr {
            id,
            pos,
            depth: below + 1,
            kind,
        })
    }

    fn too_deep(&self, pos: usize) -> Issue {
        self.issue(pos, format!("{TOO_DEEP}: {MAX_DEPTH}"))
    }

    /// A call, of a method if there is a target.
    pub(crate) fn call(
        &mut self,
        pos: usize,
        target: Option<Expr>,
        name: impl Into<String>,
        args: Vec<Expr>,
    ) -> Result<Expr, Issue> {
        let (target, name) = (target.map(Box::new), name.into());
        self.node(pos, Kind::Call { target, name, args })
    }

    fn expr(&mut self) -> Result<Expr, Issue> {
        if self.nesting >= MAX_DEPTH {
            return Err(self.too_deep(self.pos()));
        }
        self.nesting += 1;
        let mut result = self.binary(0)?;
        if self.is("?") {
            result = self.conditional(result)?;
        }
        self.nesting -= 1;
        Ok(result)
    }

    fn conditional(&mut self, condition: Expr) -> Result<Expr, Issue> {
        let pos = self.expect("?")?;
        let yes = self.binary(0)?;
        self.expect(":")?;
        let no = self.expr()?;
        self.call(pos, None, "_?_:_", vec![condition, yes, no])
    }

    /// All binary operators by precedence climbing.
    fn binary(&mut self, level: u8) -> Result<Expr, Issue> {
        let mut left = self.unary()?;
        while let Some((name, precedence)) = self.binary_operator() {
            if precedence < level {
                break;
            }
            let pos = self.pos();
            self.at += 1;
            let right = self.binary(precedence + 1)?;
            left = self.combine(pos, name, left, right)?;
        }
        Ok(left)
    }

    /// A call of an operator; `a || b || c` becomes one call with all terms.
    fn combine(
        &mut self,
        pos: usize,
        name: &str,
        mut left: Expr,
        right: Expr,
    ) -> Result<Expr, Issue> {
        if matches!(name, "_||_" | "_&&_")
            && let Kind::Call {
                target: None,
                name: found,
                args,
            } = &mut left.kind
            && found == name
            && right.depth < MAX_DEPTH
        {
            left.depth = left.depth.max(right.depth + 1);
            // Flat, so that a chain of a thousand terms is one level high. cel-go
            // balances such chains for the same reason.
            args.push(right);
            return Ok(left);
        }
        self.call(pos, None, name, vec![left, right])
    }

    fn binary_operator(&self) -> Option<(&'static str, u8)> {
        Some(match self.kind() {
            TokenKind::Punct("||") => ("_||_", 0),
            TokenKind::Punct("&&") => ("_&&_", 1),
            TokenKind::Ident(name) if name == "in" => ("@in", 2),
            TokenKind::Punct("==") => ("_==_", 2),
            TokenKind::Punct("!=") => ("_!=_", 2),
            TokenKind::Punct("<") => ("_<_", 2),
            TokenKind::Punct("<=") => ("_<=_", 2),
            TokenKind::Punct(">") => ("_>_", 2),
            TokenKind::Punct(">=") => ("_>=_", 2),
            TokenKind::Punct("+") => ("_+_", 3),
            TokenKind::Punct("-") => ("_-_", 3),
            TokenKind::Punct("*") => ("_*_", 4),
            TokenKind::Punct("/") => ("_/_", 4),
            TokenKind::Punct("%") => ("_%_", 4),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        if self.is("!") || self.is("-") {
            return self.prefixed();
        }
        let primary = self.primary()?;
        self.member(primary)
    }

    fn prefixed(&mut self) -> Result<Expr, Issue> {
        let (punct, name) = if self.is("!") {
            ("!", "!_")
        } else {
            ("-", "-_")
        };
        let pos = self.pos();
        let mut count = 0_usize;
        while self.eat(punct) {
            count += 1;
        }
        // A single minus before a number is its sign.
        let number = matches!(self.kind(), TokenKind::Int { .. } | TokenKind::Double(_));
        if punct == "-" && count == 1 && number {
            let literal = self.number(true)?;
            return self.member(literal);
        }
        let primary = self.primary()?;
        let operand = self.member(primary)?;
        // Pairs cancel out.
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        self.call(pos, None, name, vec![operand])
    }

    fn member(&mut self, mut operand: Expr) -> Result<Expr, Issue> {
        loop {
            let pos = self.pos();
            if self.eat(".") {
                let optional = self.eat("?");
                let field = self.name(self.pos())?;
                if optional {
                    let kind = Kind::OptSelect {
                        operand: Box::new(operand),
                        field,
                    };
                    operand = self.node(pos, kind)?;
                } else if self.is("(") {
                    let open = self.expect("(")?;
                    let args = self.arguments(")")?;
                    operand = macros::receiver(self, open, operand, field, args)?;
                } else {
                    let kind = Kind::Select {
                        operand: Box::new(operand),
                        field,
                        test: false,
                    };
                    operand = self.node(pos, kind)?;
                }
            } else if self.eat("[") {
                let name = if self.eat("?") { "_[?_]" } else { "_[_]" };
                let index = self.expr()?;
                self.expect("]")?;
                operand = self.call(pos, None, name, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// A field or method name; only the keywords of the grammar are refused here.
    fn name(&mut self, pos: usize) -> Result<String, Issue> {
        match self.kind().clone() {
            TokenKind::Ident(name) if !is_keyword(&name) => {
                self.at += 1;
                Ok(name)
            }
            TokenKind::EscapedIdent => Err(self.issue(pos, "unsupported syntax: '`'")),
            _ => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        if self.eat(close) {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.eat(close) {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    // Kept small: every level of nesting has one of these on the stack.
    fn primary(&mut self) -> Result<Expr, Issue> {
        match self.kind() {
            TokenKind::Punct("(") => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Punct("[") => self.list(),
            TokenKind::Punct("{") => self.map(),
            // `!-1`: the sign is part of the literal.
            TokenKind::Punct("-") => {
                self.at += 1;
                if matches!(self.kind(), TokenKind::Uint { .. }) {
                    return Err(self.unexpected());
                }
                self.number(true)
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Expr, Issue> {
        let pos = self.pos();
        match self.kind().clone() {
            TokenKind::Punct(".") => {
                self.at += 1;
                self.identifier(pos)
            }
            TokenKind::Ident(name) => match name.as_str() {
                "true" => self.constant(Literal::Bool(true)),
                "false" => self.constant(Literal::Bool(false)),
                "null" => self.constant(Literal::Null),
                _ => self.identifier(pos),
            },
            TokenKind::Int { .. } | TokenKind::Uint { .. } | TokenKind::Double(_) => {
                self.number(false)
            }
            TokenKind::String(text) => self.constant(Literal::String(text)),
            TokenKind::Bytes(bytes) => self.constant(Literal::Bytes(bytes)),
            TokenKind::Punct(_) | TokenKind::EscapedIdent | TokenKind::End => {
                Err(self.unexpected())
            }
        }
    }

    fn constant(&mut self, literal: Literal) -> Result<Expr, Issue> {
        let pos = self.pos();
        self.at += 1;
        self.node(pos, Kind::Literal(literal))
    }

    fn number(&mut self, negative: bool) -> Result<Expr, Issue> {
        let pos = self.pos();
        let sign = if negative { "-" } else { "" };
        let (literal, what) = match self.kind() {
            TokenKind::Int { digits, radix } => (
                i64::from_str_radix(&format!("{sign}{digits}"), *radix)
                    .ok()
                    .map(Literal::Int),
                "int",
            ),
            TokenKind::Uint { digits, radix } => (
                u64::from_str_radix(digits, *radix).ok().map(Literal::Uint),
                "uint",
            ),
            TokenKind::Double(digits) => {
                let parsed = format!("{sign}{digits}").parse::<f64>().ok();
                (
                    parsed.filter(|d| d.is_finite()).map(Literal::Double),
                    "double",
                )
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        match literal {
            Some(literal) => self.node(pos, Kind::Literal(literal)),
            None => Err(self.issue(pos, format!("invalid {what} literal"))),
        }
    }

    fn identifier(&mut self, pos: usize) -> Result<Expr, Issue> {
        let name = match self.kind() {
            TokenKind::Ident(name) if !is_keyword(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        // A message may be called what a variable may not.
        if let Some(type_name) = self.message_name(&name) {
            return self.message(type_name);
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(self.issue(pos, format!("reserved identifier: {name}")));
        }
        if self.is("(") {
            let open = self.expect("(")?;
            let args = self.arguments(")")?;
            return macros::global(self, open, name, args);
        }
        self.node(pos, Kind::Ident(name))
    }

    /// The dotted name of a message literal, if one starts here; moves to its brace.
    fn message_name(&mut self, first: &str) -> Option<String> {
        let mut name = first.to_owned();
        let mut at = self.at;
        loop {
            match self.tokens.get(at).map(|t| &t.kind) {
                Some(TokenKind::Punct("{")) => {
                    self.at = at;
                    return Some(name);
                }
                Some(TokenKind::Punct(".")) => {
                    match self.tokens.get(at + 1).map(|t| &t.kind) {
                        Some(TokenKind::Ident(next)) if !is_keyword(next) => {
                            name = format!("{name}.{next}");
                        }
                        _ => return None,
                    }
                    at += 2;
                }
                _ => return None,
            }
            // Long chains are selections, not type names.
            if at - self.at > 64 {
                return None;
            }
        }
    }

    /// Whether brackets close here. A comma is between entries, and may precede the closing
    /// bracket, even if there is no entry.
    fn closes(&mut self, close: &str, empty: bool) -> Result<bool, Issue> {
        if self.eat(close) {
            return Ok(true);
        }
        if empty && !self.is(",") {
            return Ok(false);
        }
        self.expect(",")?;
        if empty {
            self.expect(close)?;
            return Ok(true);
        }
        Ok(self.eat(close))
    }

    fn message(&mut self, name: String) -> Result<Expr, Issue> {
        let pos = self.expect("{")?;
        let mut fields = Vec::new();
        while !self.closes("}", fields.is_empty())? {
            self.eat("?");
            self.name(self.pos())?;
            self.expect(":")?;
            fields.push(self.expr()?);
        }
        self.node(pos, Kind::Struct { name, fields })
    }

    fn list(&mut self) -> Result<Expr, Issue> {
        let pos = self.pos();
        self.at += 1;
        let mut items = Vec::new();
        while !self.closes("]", items.is_empty())? {
            let optional = self.eat("?");
            items.push(Element {
                value: self.expr()?,
                optional,
            });
        }
        self.node(pos, Kind::List(items))
    }

    fn map(&mut self) -> Result<Expr, Issue> {
        let pos = self.pos();
        self.at += 1;
        let mut entries = Vec::new();
        while !self.closes("}", entries.is_empty())? {
            let optional = self.eat("?");
            let key = self.expr()?;
            self.expect(":")?;
            entries.push(Entry {
                key,
                value: self.expr()?,
                optional,
            });
        }
        self.node(pos, Kind::Map(entries))
    }
}

fn is_keyword(name: &str) -> bool {
    matches!(name, "in" | "true" | "false" | "null")
}
