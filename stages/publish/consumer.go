package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"aicplan/sink/atomic"
)

// consumer is what a reader said about the exported tables: the result of
// aicplan data read-back -json.
type consumer struct {
	Package string `json:"package"`
	Tables  []struct {
		Table   string `json:"table"`
		Result  string `json:"result"`
		Message string `json:"message"`
	} `json:"tables"`
}

// readConsumer reads the result; where there is none yet nothing was asked.
func readConsumer(path string) (consumer, error) {
	var c consumer
	data, err := atomic.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s is no result of aicplan data read-back -json: %w", path, err)
	}
	return c, nil
}

// of is what it said about one table, the worst where several files hold it.
func (c consumer) of(table string) string {
	said := ""
	for _, t := range c.Tables {
		if t.Table != table {
			continue
		}
		if t.Result != "pass" {
			return t.Result + " by " + c.Package + ": " + t.Message
		}
		said = "read by " + c.Package
	}
	if said == "" {
		return "not run"
	}
	return said
}
