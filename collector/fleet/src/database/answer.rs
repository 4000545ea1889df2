//! The answer of a query: rows whose values are read by column name.

use crate::rows::Value;

/// The answer of a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

impl Answer {
    /// Iterates over the rows.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { columns: &self.columns, values })
    }
}

/// A row of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl Row<'_> {
    fn get(&self, column: &str) -> Option<&Value> {
        let place = self.columns.iter().position(|of| of == column)?;
        self.values.get(place)
    }

    /// True if the answer has the column.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|of| of == column)
    }

    /// Returns a text, empty if there is none.
    #[must_use]
    pub fn text(&self, column: &str) -> String {
        match self.get(column) {
            Some(Value::Text(text)) => text.to_string(),
            Some(Value::Int(value)) => value.to_string(),
            _ => String::new(),
        }
    }

    /// Returns a count, 0 if there is none.
    #[must_use]
    pub fn count(&self, column: &str) -> u64 {
        match self.get(column) {
            Some(Value::Int(value)) => u64::try_from(*value).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns a number, if there is one.
    #[must_use]
    pub fn real(&self, column: &str) -> Option<f64> {
        match self.get(column)? {
            Value::Real(value) => Some(*value),
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            Value::Int(value) => Some(*value as f64),
            _ => None,
        }
    }
}
