package importer

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/perf"
	"aicplan/sink/table"
)

const goodTable = `framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency
TRTLLM,1.2.0,NVIDIA H200,gemm,nvjet,fp8,1,512,512,0.1
TRTLLM,1.2.0,NVIDIA H200,gemm,nvjet,fp8,2,512,512,0.2
TRTLLM,1.2.0,NVIDIA H200,gemm,nvjet,fp8,4,512,512,0.3
`

// TestBadFiles reads files of other programs and spreadsheets and broken files. Each is rejected with its place
// and a fix, or read correctly.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	replace := func(from, to string) string {
		if !strings.Contains(goodTable, from) {
			t.Fatalf("the good table has no %q", from)
		}
		return strings.Replace(goodTable, from, to, 1)
	}

	utf16 := "\xff\xfe" + strings.Join(strings.Split(goodTable, ""), "\x00")
	for name, c := range map[string]struct{ text, want string }{ // want: the error, or "drift: ", or "" for neither
		"good":            {goodTable, ""},
		"byte order mark": {"\xef\xbb\xbf" + goodTable, ""},
		"CRLF":            {strings.ReplaceAll(goodTable, "\n", "\r\n"), ""},
		"key beyond 2^53": {replace(",2,512", ",9007199254740993,512") +
			"TRTLLM,1.2.0,NVIDIA H200,gemm,nvjet,fp8,1.0,512,512,0.3\n",
			"row 2 has 9007199254740992, which is too large to be exact"},
		"long text": {replace("nvjet", strings.Repeat("x", 1<<20)),
			"row 1: the column kernel_source contains a text of 1048576 bytes"},
		"blank lines": {strings.ReplaceAll(goodTable, "\n", "\n\n"), ""},
		"empty":       {"", ":1:1: the file is empty"},
		"blank":       {"\n\n", ":1:1: the file is empty"},
		"UTF-16":      {utf16, ":1:4: a NUL byte: this is not CSV text in UTF-8"},
		"Latin-1":     {replace("nvjet", "nvj\xe9t"), ":2:34: the byte 0xe9 is no UTF-8"},
		"NUL":         {replace("nvjet", "nv\x00et"), ":2:33: a NUL byte"},
		"late NUL": {goodTable + strings.Repeat("TRTLLM,1.2.0,NVIDIA H200,gemm,nvjet,fp8,8,512,512,0.3\n", 100) +
			"TRTLLM,1.2.0,NVIDIA H200,gemm,nv\x00et,fp8,8,512,512,0.3\n", ":105:33: a NUL byte"},
		"escape": {replace("nvjet", "\x1b[31mnvjet"),
			"row 1: the column kernel_source contains the control character U+001B"},
		"line break": {replace("nvjet", "\"nv\njet\""),
			"row 1: the column kernel_source contains the control character U+000A"},
		"turned text": {replace("nvjet", "nv\u202ejet"), "U+202E"},
		"formula": {replace("nvjet", "=1+1"),
			`row 1: the column kernel_source begins like a formula of a spreadsheet: "=1+1"`},
		"formula in row 3": {replace("nvjet,fp8,4", "@SUM(1),fp8,4"),
			"row 3: the column kernel_source begins like a formula"},
		"escape in a name": {strings.NewReplacer("latency\n", "latency,\x1b[2J\n", "0.1\n", "0.1,1\n", "0.2\n",
			"0.2,1\n", "0.3\n", "0.3,1\n").Replace(goodTable),
			`the name of the column "\x1b[2J" contains the control character U+001B`},
		"semicolons": {strings.ReplaceAll(goodTable, ",", ";"),
			":1:1: the fields are separated by semicolons, and commas are needed"},
		"tabs":          {strings.ReplaceAll(goodTable, ",", "\t"), ":1:1: the fields are separated by tabs"},
		"decimal comma": {replace("0.2\n", "\"0,2\"\n"), `:3:51: "0,2" in column "latency" is not a number`},
		"unit":          {replace("0.2\n", "0.2ms\n"), `"0.2ms" in column "latency" is not a number`},
		"spaces":        {replace("0.2\n", " 0.2\n"), `" 0.2" in column "latency" is not a number`},
		"word":          {replace("0.2\n", "N/A\n"), `"N/A" in column "latency" is not a number`},
		"too large":     {replace("0.2\n", "1e400\n"), `"1e400" in column "latency" is not a number`},
		"Arabic digits": {replace("0.2\n", "\u0660\n"), "is not a number"},
		"half a key": {replace(",2,512", ",2.5,512"),
			"the column m cannot be read as int64: row 2 has 2.5, which is not a whole number"},
		"huge key": {replace(",2,512", ",1e30,512"), "row 2 has 1e+30, which is too large"},
		"2^63 key": {replace(",2,512", ",9223372036854775808,512"),
			"row 2 has 9.2233720368547758e+18, which is too large"},
		"infinite key":       {replace(",2,512", ",inf,512"), "row 2 has +Inf, which is"},
		"zeros before a key": {replace(",2,512", ",0002,512"), `row 2 has the text "0002"`},
		"text key":           {replace(",2,512", ",two,512"), `row 2 has the text "two"`},
		"hexadecimal key":    {replace(",2,512", ",0x2,512"), `row 2 has the text "0x2"`},
		"short row":          {goodTable + "TRTLLM,1.2.0\n", ":5:1: this row has 2 fields, the header has 10"},
		"long row": {goodTable + "TRTLLM,1.2.0,NVIDIA H200,gemm,nvjet,fp8,4,512,512,0.3,1\n",
			":5:1: this row has 11 fields, the header has 10"},
		"cut row":               {goodTable[:len(goodTable)-9], "this row has 8 fields"},
		"open quote":            {goodTable + "\"TRTLLM,1", ":5:10: a quoted field does not end in a quote"},
		"header twice":          {goodTable + goodTable, `"latency" in column "latency" is not a number`},
		"comment":               {"# a comment\n" + goodTable, "this row has 10 fields, the header has 1"},
		"same column":           {replace("latency", "latency,latency"), `two columns are called "latency"`},
		"column without a name": {replace("latency", "latency,"), "a column without a name"},
		"spaces in the header": {replace("latency", " latency"),
			`the column " latency" has spaces around its name; remove them`},
		"case of a key": {replace("gemm_dtype", "GEMM_dtype"),
			"needs: its column is called GEMM_dtype, and names have one case only"},
		"case of the metric": {replace("latency", "Latency"), "needs: its column is called Latency"},
		"case of a label": {replace("version", "Version"),
			"drift: the column Version is not one of gemm_perf, whose column is called version"},
		"no device": {strings.ReplaceAll(replace("device,", ""), "NVIDIA H200,", ""),
			"drift: the rows have no device"},
		"unknown word":        {replace("fp8", "fp9"), "drift: gemm_dtype \"fp9\" is unknown"},
		"case of a word":      {replace("fp8", "FP8"), "drift: gemm_dtype \"FP8\" is unknown; did you mean fp8?"},
		"space behind a word": {replace("fp8", "fp8 "), "drift: gemm_dtype \"fp8 \" is unknown"},
		"null": {replace(",0.2\n", ",\n"),
			"drift: the column latency, which readers need, is empty (1 rows)"},
		"null key": {replace(",2,512", ",,512"), "drift: the column m, which readers need, is empty (1 rows)"},
		"JSON":     {`[{"m": 1}]`, ":1:3: a quote inside a field"},
		"Parquet":  {"PAR1....PAR1", "this is a Parquet file, not CSV"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := c.want
			set, err := Load(write(t, c.text, t.TempDir(), "gemm_perf.txt"), Options{})

			drifted, isDrift := strings.CutPrefix(want, "drift: ")
			switch {
			case want == "" || isDrift:
				if err != nil {
					t.Fatal(err)
				}

				if got := drift(set); want == "" && got != "" || !strings.Contains(got, drifted) {
					t.Errorf("drift %q, want %q", got, drifted)
				}

				if set.Data.Table.NumRows() != 3 {
					t.Errorf("%d rows", set.Data.Table.NumRows())
				}
			case err == nil:
				t.Errorf("it is read, want %q", want)
			case !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "gemm_perf.txt"):
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

// Parquet has types of its own; text in it is judged as text of CSV is.
func TestBadParquet(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		column string
		cells  arrow.Array
		want   string
	}{
		"text": {"latency", table.Constant("0.1", 2),
			`the column latency cannot be read as float64: row 1 has the text "0.1"`},
		"bool": {"latency", table.Constant(true, 2), "the column latency cannot be read as float64: it is bool"},
		"NUL": {"kernel_source", table.Constant("a\x00b", 2),
			"row 1: the column kernel_source contains the control character U+0000"},
		"escape": {"kernel_source", table.Texts([]string{"fine", "\x1b]0;x\a"}, nil),
			"row 2: the column kernel_source contains the control character U+001B"},
		"formula": {"kernel_source", table.Constant("=1+1", 2), "begins like a formula"},
		"2^63": {"m", table.Floats([]float64{1, 1 << 63}, nil),
			"row 2 has 9.2233720368547758e+18, which is too large"},
		"half a key":   {"m", table.Floats([]float64{1, 1.5}, nil), "row 2 has 1.5, which is not a whole number"},
		"number as id": {"version", table.Constant(1.2, 2), "the column version cannot be read as"},
	} {
		rec := table.NewRecord([]string{"framework", "version", "device", "kernel_source", "gemm_dtype", "m", "n",
			"k", "latency"}, []arrow.Array{
			table.Constant("TRTLLM", 2), table.Constant("1.2.0", 2), table.Constant("NVIDIA H200", 2),
			table.Constant("nvjet", 2), table.Constant("fp8", 2),
			table.Ints([]int64{1, 2}, nil), table.Constant(int64(512), 2), table.Constant(int64(512), 2),
			table.Constant(0.1, 2)})

		path := write(t, "", t.TempDir(), "gemm_perf.parquet")
		var b bytes.Buffer
		if err := perf.WriteParquet(&b, table.WithColumn(rec, c.column, c.cells)); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestBadFlags checks that errors of a column of flags contain its values.
func TestBadFlags(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		cells arrow.Array
		want  string
	}{
		{table.Texts([]string{"true", "yes"}, nil), `row 2 has the text "yes"`},
		{table.Texts([]string{"True", "False"}, nil), `row 1 has the text "True"`},
		{table.Ints([]int64{1, 2}, nil), "row 2 has 2, which is neither 0 nor 1"},
		{table.Floats([]float64{1, 0}, nil), "it is float64"},
	} {
		x := conformer{path: "x_perf.parquet", rec: table.NewRecord([]string{"used_cuda_graph"}, []arrow.Array{c.cells})}
		err := x.convert(catalog.Column{Name: "used_cuda_graph", Type: catalog.Type{DataType: table.Bool}})
		if err == nil || err.Error() != "x_perf.parquet: the column used_cuda_graph cannot be read as bool: "+c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
