//! What the command prints, to the letter: help, answers and refusals. `TRYCMD=overwrite` renews
//! the pages under `tests/cmd`; read the difference before keeping it.

#[test]
fn everything_it_says() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
