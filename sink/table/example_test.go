package table_test

import (
	"fmt"

	"aicplan/sink/table"
)

// A builder makes an Arrow record of rows; columns get the type of their values.
func ExampleBuilder() {
	b := table.NewBuilder(table.Field("op", table.String)) // a column with its place and type
	for _, row := range []map[string]any{
		{"op": "gemm", "m": 16, "latency": 0.25},
		{"op": "gemm", "m": 1, "latency": 0.125},
		{"op": "gemm", "m": 4, "latency": nil},
	} {
		if err := b.Append(row); err != nil {
			fmt.Println(err)
			return
		}
	}
	rec, err := table.Sort(b.Record(), "m")
	if err != nil {
		fmt.Println(err)
		return
	}
	latency, err := table.Float64s(rec, "latency")
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range int(rec.NumRows()) {
		if v, ok := latency.At(i); ok {
			fmt.Println(table.Row(rec, i)["m"], v)
		} else {
			fmt.Println(table.Row(rec, i)["m"], "not measured")
		}
	}
	// Output:
	// 1 0.125
	// 4 not measured
	// 16 0.25
}
