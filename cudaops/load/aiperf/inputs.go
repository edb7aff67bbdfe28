package aiperf

import (
	"encoding/json"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
)

// maxInputs limits the number of sessions in inputs.json.
const maxInputs = 1000

// InputsJSON returns the text of inputs.json: the request bodies of each session, turn by turn. Bodies of
// later turns do not include the earlier responses.
func InputsJSON(r openai.Request, list *workload.Set) ([]byte, error) {
	type entry struct {
		ID       string            `json:"session_id"`
		Payloads []json.RawMessage `json:"payloads"`
	}

	out := struct {
		Data []entry `json:"data"`
	}{Data: []entry{}}

	for i := range min(list.Len(), maxInputs) {
		c := list.At(i)
		e := entry{ID: c.ID}
		for _, t := range c.Turns {
			body, err := r.Body(t.Prompt(), t.Output)
			if err != nil {
				return nil, err
			}
			e.Payloads = append(e.Payloads, body)
		}
		out.Data = append(out.Data, e)
	}

	return indented(out)
}

// indented returns the text of a JSON file.
func indented(v any) ([]byte, error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	return append(raw, '\n'), err
}
