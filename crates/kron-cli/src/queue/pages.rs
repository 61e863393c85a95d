//! Lists of the API, page by page.

use kron_queue_api::PageView;
use serde::de::DeserializeOwned;

use crate::client::{Client, ClientError, with_query};

/// Rows of a page of most lists: one less than the API's own limit, which some lists have.
pub(crate) const PAGE_ROWS: usize = 999;
/// Rows of a page of groups, whose states are expensive.
pub(crate) const GROUP_PAGE_ROWS: usize = 100;

/// A list of the API that is read from its beginning.
#[derive(Debug)]
pub(crate) struct Pages<'a> {
    client: &'a Client,
    path: String,
    query: Vec<(&'static str, Option<String>)>,
    page_rows: usize,
    cursor: Option<String>,
    is_over: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(client: &'a Client, path: impl Into<String>) -> Pages<'a> {
        Pages {
            client,
            path: path.into(),
            query: Vec::new(),
            page_rows: PAGE_ROWS,
            cursor: None,
            is_over: false,
        }
    }

    /// Asks for some rows only.
    pub(crate) fn filter(mut self, name: &'static str, value: Option<String>) -> Pages<'a> {
        self.query.push((name, value));
        self
    }

    /// Asks for smaller pages.
    pub(crate) fn page_rows(mut self, page_rows: usize) -> Pages<'a> {
        self.page_rows = page_rows;
        self
    }

    /// The next page, of no more than `rows_max`; `None` at the end. It may be empty.
    pub(crate) fn next<T: DeserializeOwned>(
        &mut self,
        rows_max: usize,
    ) -> Result<Option<Vec<T>>, ClientError> {
        if self.is_over || rows_max == 0 {
            return Ok(None);
        }
        let limit = rows_max.min(self.page_rows);
        let mut query = self.query.clone();
        query.push(("cursor", self.cursor.take()));
        query.push(("limit", Some(limit.to_string())));
        let page: PageView<T> = self.client.get(&with_query(&self.path, &query))?;
        self.is_over = page.next.is_none();
        self.cursor = page.next;
        Ok(Some(page.items))
    }

    /// All rows, up to so many.
    pub(crate) fn rows<T: DeserializeOwned>(
        &mut self,
        rows_max: usize,
    ) -> Result<Vec<T>, ClientError> {
        let mut rows = Vec::new();
        while let Some(page) = self.next(rows_max - rows.len())? {
            rows.extend(page);
        }
        Ok(rows)
    }

    /// Whether there is nothing after what was read.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}
