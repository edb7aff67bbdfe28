package dedupe

import (
	"aicplan/engine/stage"
	"aicplan/sink/rowkey"
)

// KeyColumns are the columns that name a row of the dataset: the key of its
// perf table where it has one, else the case parameters, else every column
// that is neither a measurement nor says who measured.
func KeyColumns(ds *stage.Dataset) []string {
	if len(ds.Info.Params) > 0 {
		return ds.Info.Params
	}
	if ds.Table == nil {
		return nil
	}
	return rowkey.Shape(ds.Table.Schema())
}
