mod device;
mod faults;
mod fixture;
mod formats;
mod resuming;
