//! Token types and sets of them, in the order in which the reference grammar declares them:
//! messages list them in that order.

/// Index into [`NAMES`].
pub(super) type TokenType = u8;

/// A set of token types, a bit each.
pub(super) type TokenSet = u64;

/// How messages name the types: punctuation and words in quotes, classes in capitals.
const NAMES: [&str; 36] = [
    "<EOF>",
    "==",
    "!=",
    "in",
    "<",
    "<=",
    ">=",
    ">",
    "&&",
    "||",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ".",
    ",",
    "-",
    "!",
    "?",
    ":",
    "+",
    "*",
    "/",
    "%",
    "true",
    "false",
    "null",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
];

/// The end of the source.
pub(super) const END: TokenType = 0;
pub(super) const AND: TokenType = 8;
pub(super) const OR: TokenType = 9;
pub(super) const LBRACKET: TokenType = 10;
pub(super) const RBRACKET: TokenType = 11;
pub(super) const LBRACE: TokenType = 12;
pub(super) const RBRACE: TokenType = 13;
pub(super) const LPAREN: TokenType = 14;
pub(super) const RPAREN: TokenType = 15;
pub(super) const DOT: TokenType = 16;
pub(super) const COMMA: TokenType = 17;
pub(super) const MINUS: TokenType = 18;
pub(super) const NOT: TokenType = 19;
pub(super) const QUESTION: TokenType = 20;
pub(super) const COLON: TokenType = 21;
pub(super) const PLUS: TokenType = 22;
pub(super) const STAR: TokenType = 23;
pub(super) const SLASH: TokenType = 24;
pub(super) const PERCENT: TokenType = 25;
pub(super) const NUM_FLOAT: TokenType = 29;
pub(super) const NUM_INT: TokenType = 30;
pub(super) const NUM_UINT: TokenType = 31;
pub(super) const STRING: TokenType = 32;
pub(super) const BYTES: TokenType = 33;
pub(super) const IDENTIFIER: TokenType = 34;
pub(super) const ESC_IDENTIFIER: TokenType = 35;

/// Not a token: what follows is up to the caller of the rule.
// The highest bit, which no token can have: the grammar has 36 of them.
pub(super) const RETURNS: TokenSet = 1 << 63;

/// `==`, `!=`, `in`, `<`, `<=`, `>=` and `>`.
pub(super) const RELATIONS: TokenSet = 0xfe;
/// `*`, `/` and `%`.
pub(super) const FACTORS: TokenSet = of(&[STAR, SLASH, PERCENT]);
/// `+` and `-`.
pub(super) const TERMS: TokenSet = of(&[PLUS, MINUS]);
/// What begins an operand, after its `!` or `-`.
pub(super) const MEMBER: TokenSet = of(&[
    LBRACKET, LBRACE, LPAREN, DOT, MINUS, 26, 27, 28, NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES,
    IDENTIFIER,
]);
/// What begins an expression.
pub(super) const EXPRESSION: TokenSet = MEMBER | only(NOT);
/// What begins an element of a list or the key of a map.
pub(super) const ELEMENT: TokenSet = EXPRESSION | only(QUESTION);
/// Names of fields.
pub(super) const FIELD: TokenSet = of(&[IDENTIFIER, ESC_IDENTIFIER]);

/// A set of one.
pub(super) const fn only(token: TokenType) -> TokenSet {
    1 << token
}

/// A set of some.
pub(super) const fn of(tokens: &[TokenType]) -> TokenSet {
    let (mut set, mut i) = (0, 0);
    while i < tokens.len() {
        set |= only(tokens[i]);
        i += 1;
    }
    set
}

/// Whether `token` is in `set`.
pub(super) const fn has(set: TokenSet, token: TokenType) -> bool {
    set & only(token) != 0
}

/// The type of a punctuation mark, [`END`] if there is none such.
pub(super) fn punct(chars: &[char]) -> TokenType {
    let found = NAMES[1..29]
        .iter()
        .position(|n| n.chars().eq(chars.iter().copied()));
    found
        .and_then(|i| TokenType::try_from(i + 1).ok())
        .unwrap_or(END)
}

/// The type of a name: a keyword of the grammar or an identifier.
pub(super) fn word(text: &str) -> TokenType {
    match text {
        "in" => 3,
        "true" => 26,
        "false" => 27,
        "null" => 28,
        _ => IDENTIFIER,
    }
}

/// `']'`, or `{']', ','}` if there are several.
pub(super) fn display(set: TokenSet) -> String {
    let names: Vec<String> = (0..)
        .zip(NAMES)
        .filter(|(token, _)| has(set, *token))
        .map(|(token, name)| match token {
            1..29 => format!("'{name}'"),
            _ => name.to_owned(),
        })
        .collect();
    match names.as_slice() {
        [name] => name.clone(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}
