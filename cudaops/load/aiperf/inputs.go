package aiperf

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
)

// maxInputs limits the number of sessions in inputs.json.
const maxInputs = 1000

// WriteInputs writes inputs.json: the request bodies of each session, turn by turn. Bodies of later turns do not
// include the earlier responses.
func WriteInputs(w io.Writer, r openai.Request, list *workload.Set) error {
	out := bufio.NewWriter(w) // Flush returns the errors of all writes
	put := func(text string) { _, _ = out.WriteString(text) }
	comma := func(i int) {
		if i > 0 {
			put(",")
		}
	}

	var body []byte
	var indented bytes.Buffer
	put("{\n  \"data\": [")
	for i := range min(list.Len(), maxInputs) {
		c := list.At(i)
		comma(i)
		put("\n    {\n      \"session_id\": " + string(openai.AppendString(nil, c.ID)) + ",\n      \"payloads\": [")
		for k := range c.Turns {
			var err error
			if body, err = r.Append(body[:0], c.Turns[k].Prompt(), c.Turns[k].Output); err != nil {
				return err
			}

			comma(k)
			indented.Reset()
			indented.WriteString("\n        ")
			if err := json.Indent(&indented, body, "        ", "  "); err != nil {
				return err
			}
			_, _ = indented.WriteTo(out)
		}
		put("\n      ]\n    }")
	}
	put("\n  ]\n}\n")
	return out.Flush()
}

// indented returns the text of a JSON file.
func indented(v any) ([]byte, error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	return append(raw, '\n'), err
}
