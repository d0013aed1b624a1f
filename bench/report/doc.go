// Package report is what a benchmark found, and how it is shown.
package report
