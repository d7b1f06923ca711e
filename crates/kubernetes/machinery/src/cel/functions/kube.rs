//! The libraries of Kubernetes: regular expressions, URLs, addresses, quantities, versions and
//! named formats.

use std::net::IpAddr;
use std::sync::Arc;

use crate::cel::eval::Evaluator;
use crate::cel::formats::Format;
use crate::cel::meter::{Fail, Meter};
use crate::cel::net::{self, Cidr};
use crate::cel::urls::Url;
use crate::cel::value::{Map, OwnedMap, Val};
use crate::cel::{regexes, versions};
use crate::quantity::{Format as Suffixes, Quantity, QuantityError};

/// `matches`, `find` and `findAll`.
pub(super) fn regex<'a>(
    ev: &mut Evaluator<'a>,
    name: &str,
    args: &[Val<'a>],
) -> Result<Val<'a>, Fail> {
    let (Some(Val::Str(text)), Some(Val::Str(pattern))) = (args.first(), args.get(1)) else {
        return Err(Fail::no_overload());
    };
    let limit = match args.get(2) {
        None => -1,
        Some(Val::Int(n)) => *n,
        Some(_) => return Err(Fail::no_overload()),
    };
    let (regex, large) = if let Some(known) = ev.regexes.get(&**pattern) {
        known.clone()
    } else {
        // Compilation is what costs; a rule in a list would otherwise compile a new
        // pattern for each item at the price of one match.
        ev.meter.burn(1_000 + pattern.len() * 16)?;
        let made = regexes::compile(pattern).map_err(|e| {
            let prefix = if name == "matches" {
                ""
            } else {
                "Illegal regex: "
            };
            Fail::error(format!("{prefix}{e}"))
        })?;
        let made = (Arc::new(made.0), made.1);
        ev.regexes.insert(pattern.to_string(), made.clone());
        made
    };
    // Matching is linear in the text, with a factor that grows with the pattern.
    ev.meter
        .burn(text.len().saturating_mul(if large { 200 } else { 8 }))?;
    match name {
        "matches" => Ok(Val::Bool(regex.is_match(text))),
        "find" => Ok(Val::string(regex.find(text).map_or("", |m| m.as_str()))),
        _ => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut found = Vec::new();
            for part in regex.find_iter(text).take(limit) {
                ev.meter.burn(6 + part.len() / 8)?;
                found.push(Val::string(part.as_str()));
            }
            Ok(Val::list(found))
        }
    }
}

/// Everything else.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Result<Val<'a>, Fail> {
    if let Some(Val::Str(text)) = args.first() {
        meter.burn_bytes(text.len())?;
    }
    if let Some(format) = name.strip_prefix("format.")
        && args.is_empty()
    {
        return Format::named(format)
            .map(Val::Format)
            .ok_or_else(Fail::no_overload);
    }
    match args {
        [Val::Str(text)] => parse(name, text, false),
        [Val::Str(text), Val::Bool(normalize)] => parse(name, text, *normalize),
        [Val::Url(url)] => url_part(name, url, meter),
        [Val::Ip(ip)] => ip_part(name, *ip),
        [Val::Cidr(cidr), rest @ ..] => cidr_call(name, *cidr, rest),
        [Val::Quantity(amount), rest @ ..] => quantity_call(name, amount, rest),
        [Val::Semver(version), rest @ ..] => semver_call(name, version, rest),
        [Val::Format(format), Val::Str(text)] if name == "validate" => {
            meter.burn(text.len().saturating_mul(4))?;
            let found: Vec<Val<'a>> = format.validate(text).into_iter().map(Val::string).collect();
            Ok(Val::optional((!found.is_empty()).then(|| Val::list(found))))
        }
        _ => Err(Fail::no_overload()),
    }
}

/// Functions of one string.
fn parse<'a>(name: &str, text: &str, normalize: bool) -> Result<Val<'a>, Fail> {
    Ok(match name {
        "url" => {
            let url = Url::parse(text).map_err(|e| {
                Fail::error(format!(
                    "URL parse error during conversion from string: {e}"
                ))
            })?;
            Val::Url(Arc::new(url))
        }
        "isURL" => Val::Bool(Url::parse(text).is_ok()),
        "ip" => Val::Ip(net::parse_ip(text).map_err(Fail::Error)?),
        "isIP" => Val::Bool(net::parse_ip(text).is_ok()),
        "ip.isCanonical" => {
            Val::Bool(net::parse_ip(text).map_err(Fail::Error)?.to_string() == text)
        }
        "cidr" => Val::Cidr(parse_cidr(text)?),
        "isCIDR" => Val::Bool(Cidr::parse(text).is_ok()),
        "quantity" => {
            let quantity: Quantity = text
                .parse()
                .map_err(|e: QuantityError| Fail::error(e.to_string()))?;
            Val::Quantity(Arc::new(quantity))
        }
        "isQuantity" => Val::Bool(text.parse::<Quantity>().is_ok()),
        "semver" => {
            let version = versions::parse(text, normalize).map_err(Fail::Error)?;
            Val::Semver(Arc::new(version))
        }
        "isSemver" => Val::Bool(versions::parse(text, normalize).is_ok()),
        "format.named" => Val::optional(Format::named(text).map(Val::Format)),
        _ => return Err(Fail::no_overload()),
    })
}

fn parse_cidr(text: &str) -> Result<Cidr, Fail> {
    // The prefix is there twice upstream, too.
    let prefix = "network address parse error during conversion from string: ";
    Cidr::parse(text).map_err(|e| Fail::error(format!("{prefix}{e}")))
}

fn url_part<'a>(name: &str, url: &Url, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    Ok(match name {
        "getScheme" => Val::string(url.scheme.as_str()),
        "getHost" => Val::string(url.host.as_str()),
        "getHostname" => Val::string(url.hostname()),
        "getPort" => Val::string(url.port()),
        "getEscapedPath" => Val::string(url.escaped_path()),
        "getQuery" => {
            let mut map = OwnedMap::new();
            for (key, values) in url.query() {
                meter.burn(8 + values.len() * 4)?;
                let key = Val::string(key);
                let values = Val::list(values.into_iter().map(Val::string).collect());
                if let Some(index) = key.key() {
                    map.insert(index, (key, values));
                }
            }
            Val::Map(Map::Owned(Arc::new(map)))
        }
        _ => return Err(Fail::no_overload()),
    })
}

fn ip_part<'a>(name: &str, ip: IpAddr) -> Result<Val<'a>, Fail> {
    Ok(match name {
        "family" => Val::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Val::Bool(ip.is_unspecified()),
        "isLoopback" => Val::Bool(ip.is_loopback()),
        "isLinkLocalMulticast" => Val::Bool(net::is_link_local_multicast(ip)),
        "isLinkLocalUnicast" => Val::Bool(net::is_link_local_unicast(ip)),
        "isGlobalUnicast" => Val::Bool(net::is_global_unicast(ip)),
        _ => return Err(Fail::no_overload()),
    })
}

fn cidr_call<'a>(name: &str, cidr: Cidr, rest: &[Val<'a>]) -> Result<Val<'a>, Fail> {
    Ok(match (name, rest) {
        ("ip", []) => Val::Ip(cidr.address),
        ("prefixLength", []) => Val::Int(cidr.prefix.into()),
        ("masked", []) => Val::Cidr(cidr.masked()),
        ("containsIP", [Val::Ip(ip)]) => Val::Bool(cidr.contains(*ip)),
        ("containsIP", [Val::Str(text)]) => {
            Val::Bool(cidr.contains(net::parse_ip(text).map_err(Fail::Error)?))
        }
        ("containsCIDR", [Val::Cidr(other)]) => Val::Bool(cidr.includes(*other)),
        ("containsCIDR", [Val::Str(text)]) => Val::Bool(cidr.includes(parse_cidr(text)?)),
        _ => return Err(Fail::no_overload()),
    })
}

fn quantity_call<'a>(name: &str, amount: &Quantity, rest: &[Val<'a>]) -> Result<Val<'a>, Fail> {
    let whole = |n: i64| Quantity::from_i64(n, Suffixes::DecimalExponent);
    let made = |amount: Option<Quantity>| match amount {
        Some(amount) => Ok(Val::Quantity(Arc::new(amount))),
        None => Err(Fail::error("quantity has too many digits")),
    };
    Ok(match (name, rest) {
        ("sign", []) => Val::Int(amount.sign().into()),
        ("asApproximateFloat", []) => Val::Double(amount.to_f64()),
        ("asInteger", []) => Val::Int(
            amount
                .to_i64()
                .ok_or_else(|| Fail::error("cannot convert value to integer"))?,
        ),
        ("isInteger", []) => Val::Bool(amount.to_i64().is_some()),
        ("isGreaterThan", [Val::Quantity(other)]) => Val::Bool(*amount > **other),
        ("isLessThan", [Val::Quantity(other)]) => Val::Bool(*amount < **other),
        ("compareTo", [Val::Quantity(other)]) => Val::Int(amount.cmp(other) as i64),
        ("add", [Val::Quantity(other)]) => made(amount.checked_add(other))?,
        ("add", [Val::Int(other)]) => made(amount.checked_add(&whole(*other)))?,
        ("sub", [Val::Quantity(other)]) => made(amount.checked_sub(other))?,
        ("sub", [Val::Int(other)]) => made(amount.checked_sub(&whole(*other)))?,
        _ => return Err(Fail::no_overload()),
    })
}

fn semver_call<'a>(
    name: &str,
    version: &semver::Version,
    rest: &[Val<'a>],
) -> Result<Val<'a>, Fail> {
    let number = |n: u64| Val::Int(i64::try_from(n).unwrap_or(i64::MAX));
    Ok(match (name, rest) {
        ("major", []) => number(version.major),
        ("minor", []) => number(version.minor),
        ("patch", []) => number(version.patch),
        // By precedence, which ignores build metadata as the specification requires;
        // `Ord` of the crate compares it as well.
        ("isGreaterThan", [Val::Semver(other)]) => Val::Bool(version.cmp_precedence(other).is_gt()),
        ("isLessThan", [Val::Semver(other)]) => Val::Bool(version.cmp_precedence(other).is_lt()),
        ("compareTo", [Val::Semver(other)]) => Val::Int(version.cmp_precedence(other) as i64),
        _ => return Err(Fail::no_overload()),
    })
}
