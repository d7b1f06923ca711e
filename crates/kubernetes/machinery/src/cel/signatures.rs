//! Declarations of all operators, functions and methods of the Kubernetes 1.36 environment
//! (`apiserver/pkg/cel/environment/base.go`).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::check::named_type;
use super::types::{Opaque, Type};

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Called on a receiver, which is the first argument.
    pub(crate) member: bool,
    /// Argument types.
    pub(crate) args: Vec<Type>,
    /// Result type.
    pub(crate) result: Type,
}

/// All overloads of a function, in the order upstream declares them.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for (names, signatures) in TABLE.lines().filter_map(|line| line.split_once(" = ")) {
        for name in names.split_whitespace() {
            let entry = functions.entry(name).or_default();
            entry.extend(signatures.split("; ").filter_map(overload));
        }
    }
    functions
});

/// Reads `int.(int) -> int` or `(int, int) -> int`.
fn overload(text: &str) -> Option<Overload> {
    let (left, result) = text.split_once(" -> ")?;
    let (receiver, args) = left.split_once('(')?;
    // The receiver may have brackets of its own: find the one that ends with `.(`.
    let (receiver, args) = match left.find(".(") {
        Some(at) => (left.get(..at)?, left.get(at + 2..)?),
        None => (receiver, args),
    };
    let args = args.strip_suffix(')')?;
    let mut types = Vec::new();
    let member = !receiver.is_empty();
    if member {
        types.push(read_type(receiver)?);
    }
    for arg in split_arguments(args) {
        types.push(read_type(arg)?);
    }
    Some(Overload {
        member,
        args: types,
        result: read_type(result)?,
    })
}

fn split_arguments(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

fn read_type(text: &str) -> Option<Type> {
    if let Some((outer, inner)) = text.strip_suffix('>').and_then(|t| t.split_once('<')) {
        return Some(match outer {
            "list" => Type::list(read_type(inner)?),
            "opt" => Type::optional(read_type(inner)?),
            "type" => Type::Meta(Arc::new(read_type(inner)?)),
            "map" => {
                let (key, value) = inner.split_once(", ")?;
                Type::map(read_type(key)?, read_type(value)?)
            }
            _ => return None,
        });
    }
    Some(match text {
        "A" => Type::Param('A'),
        "B" => Type::Param('B'),
        "ts" => Type::Timestamp,
        "dur" => Type::Duration,
        "url" => Type::Opaque(Opaque::Url),
        "quantity" => Type::Opaque(Opaque::Quantity),
        "ip" => Type::Opaque(Opaque::Ip),
        "cidr" => Type::Opaque(Opaque::Cidr),
        "semver" => Type::Opaque(Opaque::Semver),
        "format" => Type::Opaque(Opaque::Format),
        name => return named_type(name),
    })
}

/// Names and the signatures they share, the receiver before the dot.
// A text rather than code: it can be compared line by line with upstream's declarations, and is parsed once for the
// process.
const TABLE: &str = "
    _?_:_ = (bool, A, A) -> A
    _&&_ _||_ = (bool, bool) -> bool
    !_ = (bool) -> bool
    _==_ _!=_ = (A, A) -> bool
    _<_ _<=_ _>_ _>=_ = (bool, bool) -> bool; (int, int) -> bool; (int, double) -> bool; \
        (int, uint) -> bool; (uint, uint) -> bool; (uint, double) -> bool; (uint, int) -> bool; \
        (double, double) -> bool; (double, int) -> bool; (double, uint) -> bool; \
        (string, string) -> bool; (bytes, bytes) -> bool; (ts, ts) -> bool; (dur, dur) -> bool
    _+_ = (bytes, bytes) -> bytes; (double, double) -> double; (dur, dur) -> dur; \
        (dur, ts) -> ts; (ts, dur) -> ts; (int, int) -> int; (list<A>, list<A>) -> list<A>; \
        (string, string) -> string; (uint, uint) -> uint
    _-_ = (double, double) -> double; (dur, dur) -> dur; (int, int) -> int; (ts, dur) -> ts; \
        (ts, ts) -> dur; (uint, uint) -> uint
    _*_ _/_ = (double, double) -> double; (int, int) -> int; (uint, uint) -> uint
    _%_ = (int, int) -> int; (uint, uint) -> uint
    -_ = (double) -> double; (int) -> int
    _[_] = (list<A>, int) -> A; (map<A, B>, A) -> B; (opt<list<A>>, int) -> opt<A>; \
        (opt<map<A, B>>, A) -> opt<B>
    _[?_] = (list<A>, int) -> opt<A>; (opt<list<A>>, int) -> opt<A>; (map<A, B>, A) -> opt<B>; \
        (opt<map<A, B>>, A) -> opt<B>
    @in = (A, list<A>) -> bool; (A, map<A, B>) -> bool
    size = (bytes) -> int; bytes.() -> int; (list<A>) -> int; list<A>.() -> int; \
        (map<A, B>) -> int; map<A, B>.() -> int; (string) -> int; string.() -> int
    type = (A) -> type<A>
    bool = (bool) -> bool; (string) -> bool
    bytes = (bytes) -> bytes; (string) -> bytes
    double = (double) -> double; (int) -> double; (string) -> double; (uint) -> double
    duration = (dur) -> dur; (int) -> dur; (string) -> dur
    dyn = (A) -> dyn
    int = (int) -> int; (double) -> int; (dur) -> int; (string) -> int; (ts) -> int; (uint) -> int
    string = (string) -> string; (bool) -> string; (bytes) -> string; (double) -> string; \
        (dur) -> string; (int) -> string; (ts) -> string; (uint) -> string; (ip) -> string; \
        (cidr) -> string
    timestamp = (ts) -> ts; (int) -> ts; (string) -> ts
    uint = (uint) -> uint; (double) -> uint; (int) -> uint; (string) -> uint
    contains endsWith startsWith = string.(string) -> bool
    matches = (string, string) -> bool; string.(string) -> bool
    getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek = ts.() -> int; \
        ts.(string) -> int
    getHours getMinutes getSeconds getMilliseconds = ts.() -> int; ts.(string) -> int; \
        dur.() -> int
    # Optionals.
    optional.of optional.ofNonZeroValue = (A) -> opt<A>
    optional.none = () -> opt<A>
    value = opt<A>.() -> A
    hasValue = opt<A>.() -> bool
    or = opt<A>.(opt<A>) -> opt<A>
    orValue = opt<A>.(A) -> A
    optional.unwrap = (list<opt<A>>) -> list<A>
    unwrapOpt = list<opt<A>>.() -> list<A>
    first last = list<A>.() -> opt<A>
    # Strings, version 2.
    charAt = string.(int) -> string
    indexOf lastIndexOf = string.(string) -> int; string.(string, int) -> int; list<A>.(A) -> int
    lowerAscii upperAscii = string.() -> string
    replace = string.(string, string) -> string; string.(string, string, int) -> string
    split = string.(string) -> list<string>; string.(string, int) -> list<string>
    substring = string.(int) -> string; string.(int, int) -> string
    trim = string.() -> string
    format = string.(list<dyn>) -> string
    strings.quote = (string) -> string
    join = list<string>.() -> string; list<string>.(string) -> string
    # Kubernetes regular expressions.
    find = string.(string) -> string
    findAll = string.(string) -> list<string>; string.(string, int) -> list<string>
    # Kubernetes lists.
    isSorted = list<int>.() -> bool; list<uint>.() -> bool; list<double>.() -> bool; \
        list<bool>.() -> bool; list<dur>.() -> bool; list<ts>.() -> bool; \
        list<string>.() -> bool; list<bytes>.() -> bool
    sum = list<int>.() -> int; list<uint>.() -> uint; list<double>.() -> double; \
        list<dur>.() -> dur
    min max = list<int>.() -> int; list<uint>.() -> uint; list<double>.() -> double; \
        list<bool>.() -> bool; list<dur>.() -> dur; list<ts>.() -> ts; list<string>.() -> string; \
        list<bytes>.() -> bytes
    # Lists, version 3.
    slice = list<A>.(int, int) -> list<A>
    flatten = list<list<A>>.() -> list<A>; list<dyn>.(int) -> list<dyn>
    sort = list<int>.() -> list<int>; list<uint>.() -> list<uint>; \
        list<double>.() -> list<double>; list<bool>.() -> list<bool>; list<dur>.() -> list<dur>; \
        list<ts>.() -> list<ts>; list<string>.() -> list<string>; list<bytes>.() -> list<bytes>
    lists.range = (int) -> list<int>
    reverse distinct = list<A>.() -> list<A>
    sets.contains sets.equivalent sets.intersects = (list<A>, list<A>) -> bool
    # URLs.
    url = (string) -> url
    isURL = (string) -> bool
    getScheme getHost getHostname getPort getEscapedPath = url.() -> string
    getQuery = url.() -> map<string, list<string>>
    # Addresses.
    ip = (string) -> ip; cidr.() -> ip
    isIP ip.isCanonical = (string) -> bool
    family = ip.() -> int
    isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast \
        = ip.() -> bool
    cidr = (string) -> cidr
    isCIDR = (string) -> bool
    containsIP = cidr.(string) -> bool; cidr.(ip) -> bool
    containsCIDR = cidr.(string) -> bool; cidr.(cidr) -> bool
    prefixLength = cidr.() -> int
    masked = cidr.() -> cidr
    # Quantities.
    quantity = (string) -> quantity
    isQuantity = (string) -> bool
    sign = (quantity) -> int
    isGreaterThan isLessThan = quantity.(quantity) -> bool; semver.(semver) -> bool
    compareTo = quantity.(quantity) -> int; semver.(semver) -> int
    asApproximateFloat = quantity.() -> double
    asInteger = quantity.() -> int
    isInteger = quantity.() -> bool
    add sub = quantity.(quantity) -> quantity; quantity.(int) -> quantity
    # Versions.
    semver = (string) -> semver; (string, bool) -> semver
    isSemver = (string) -> bool; (string, bool) -> bool
    major minor patch = semver.() -> int
    # Named formats.
    format.named = (string) -> opt<format>
    validate = format.(string) -> opt<list<string>>
    format.dns1123Label format.dns1123Subdomain format.dns1035Label format.qualifiedName \
        format.dns1123LabelPrefix format.dns1123SubdomainPrefix format.dns1035LabelPrefix \
        format.labelValue format.uri format.uuid format.byte format.date format.datetime \
        = () -> format
";
