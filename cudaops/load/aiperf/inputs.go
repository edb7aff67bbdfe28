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
			p := openai.Prompt{Text: t.Text, IDs: t.IDs, Tools: t.Tools, Documents: t.Documents}
			for _, raw := range t.Messages {
				p.Messages = append(p.Messages, openai.Message{Raw: raw})
			}
			if t.Messages == nil {
				p.Messages = []openai.Message{{Role: "user", Content: t.Text, Images: t.Images}}
			}

			body, err := r.Body(p, t.Output)
			if err != nil {
				return nil, err
			}
			e.Payloads = append(e.Payloads, body)
		}
		out.Data = append(out.Data, e)
	}

	raw, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, err
	}

	return append(raw, '\n'), nil
}
