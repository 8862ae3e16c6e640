//! Integration tests of the namenode.
#![allow(missing_docs)]

mod names;
mod support;

use std::future::Future;

use libtest_mimic::{Arguments, Trial};

fn trial<F: Future<Output = ()>>(name: &str, test: fn() -> F) -> Trial
where
    F: 'static,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}

macro_rules! trials {
    ($($module:ident :: $test:ident),* $(,)?) => {
        vec![$(trial(concat!(stringify!($module), "::", stringify!($test)), $module::$test)),*]
    };
}

fn main() {
    let trials =
        trials![names::directories_come_move_and_go, names::a_directory_costs_one_fetch_and_one_commit,];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
