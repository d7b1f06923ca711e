//! Calls that are not calls: `has`, the comprehensions, `optMap` and `sortBy`.

use super::ast::{Expr, Kind, Macro, MacroKind};
use super::issue::Issue;
use super::parser::Parser;

/// A global call, or `has(a.b)`.
pub(crate) fn global(
    parser: &mut Parser<'_>,
    pos: usize,
    name: String,
    mut args: Vec<Expr>,
) -> Result<Expr, Issue> {
    if name == "has" && args.len() == 1 {
        let argument = args.remove(0);
        return match argument.kind {
            Kind::Select {
                operand,
                field,
                test: false,
            } => {
                let test = true;
                parser.node(
                    pos,
                    Kind::Select {
                        operand,
                        field,
                        test,
                    },
                )
            }
            _ => Err(parser.issue(argument.pos, "invalid argument to has() macro")),
        };
    }
    parser.call(pos, None, name, args)
}

/// A method call, or a macro on a receiver.
pub(crate) fn receiver(
    parser: &mut Parser<'_>,
    pos: usize,
    target: Expr,
    name: String,
    args: Vec<Expr>,
) -> Result<Expr, Issue> {
    // (kind, variables, whether there is a filter)
    let shape = match (name.as_str(), args.len()) {
        ("all", 2) => (MacroKind::All, 1, false),
        ("all", 3) => (MacroKind::All, 2, false),
        ("exists", 2) => (MacroKind::Exists, 1, false),
        ("exists", 3) => (MacroKind::Exists, 2, false),
        ("exists_one" | "existsOne", 2) => (MacroKind::ExistsOne, 1, false),
        ("exists_one" | "existsOne", 3) => (MacroKind::ExistsOne, 2, false),
        ("map", 2) => (MacroKind::Map, 1, false),
        ("map", 3) => (MacroKind::Map, 1, true),
        ("filter", 2) => (MacroKind::Filter, 1, false),
        ("transformList", 3) => (MacroKind::Map, 2, false),
        ("transformList", 4) => (MacroKind::Map, 2, true),
        ("transformMap", 3) => (MacroKind::TransformMap, 2, false),
        ("transformMap", 4) => (MacroKind::TransformMap, 2, true),
        ("transformMapEntry", 3) => (MacroKind::TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (MacroKind::TransformMapEntry, 2, true),
        ("sortBy", 2) => (MacroKind::SortBy, 1, false),
        ("optMap", 2) => (MacroKind::OptMap, 1, false),
        ("optFlatMap", 2) => (MacroKind::OptFlatMap, 1, false),
        // Any other number of arguments is a call: cel-go expands a macro by name and count, and the checker then
        // reports the missing function.
        _ => {
            return parser.call(pos, Some(target), name, args);
        }
    };
    build(parser, pos, target, args, shape)
}

fn build(
    parser: &mut Parser<'_>,
    pos: usize,
    range: Expr,
    args: Vec<Expr>,
    (kind, variables, filtered): (MacroKind, usize, bool),
) -> Result<Expr, Issue> {
    if kind == MacroKind::SortBy && matches!(range.kind, Kind::Literal(_) | Kind::Map(_)) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or \
                       select expression";
        return Err(parser.issue(range.pos, message));
    }
    let wrong = match kind {
        MacroKind::OptMap => "optMap() variable name must be a simple identifier",
        MacroKind::OptFlatMap => "optFlatMap() variable name must be a simple identifier",
        MacroKind::Map | MacroKind::Filter | MacroKind::SortBy if variables == 1 => {
            "argument is not an identifier"
        }
        _ => "argument must be a simple name",
    };
    let mut args = args.into_iter();
    let mut names = Vec::with_capacity(variables);
    for argument in args.by_ref().take(variables) {
        match argument.kind {
            Kind::Ident(name) if names.contains(&name) => {
                let message = format!("duplicate variable name: {name}");
                return Err(parser.issue(argument.pos, message));
            }
            Kind::Ident(name) => names.push(name),
            _ => return Err(parser.issue(argument.pos, wrong)),
        }
    }
    let filter = if filtered { args.next() } else { None };
    let mut names = names.into_iter();
    match (names.next(), args.next()) {
        (Some(var), Some(body)) => {
            let var2 = names.next();
            let node = Macro {
                kind,
                range,
                var,
                var2,
                filter,
                body,
            };
            parser.node(pos, Kind::Macro(Box::new(node)))
        }
        _ => Err(parser.issue(pos, wrong)),
    }
}
