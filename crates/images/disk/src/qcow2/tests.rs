pub(crate) mod fixture;
mod header;
mod hostile;
mod oracle;
