package workload

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/parquetrows"
)

// objects calls each with the JSON objects of a file, in order. The format follows from the file's name:
//
//   - .txt: a prompt on each line
//   - .csv: a row with the fields of an object
//   - .parquet: a row with the fields of an object
//   - .json: objects, one after another or in a list
//   - otherwise an object on each line
//
// The second argument of each is the object's line, or its number in a .json or .parquet file. Errors contain name and
// that place.
func objects(r io.Reader, name string, each func(raw []byte, place int) error) error {
	n := 0
	next := func(raw []byte) error {
		if err := each(raw, n); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		return nil
	}

	switch kind := filepath.Ext(name); kind {
	case ".csv":
		return csvObjects(r, name, each)

	case ".json":
		return jsonObjects(r, name, func(raw []byte) error {
			n++
			return next(raw)
		})

	case ".parquet":
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}

		list, err := parquetrows.Objects(bytes.NewReader(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		for i, raw := range list {
			n = i + 1
			if err := next(raw); err != nil {
				return err
			}
		}
		return nil

	default:
		s := bufio.NewScanner(r)
		s.Buffer(make([]byte, 64<<10), 64<<20)
		for n = 1; s.Scan(); n++ {
			line := bytes.TrimSpace(s.Bytes())
			if len(line) == 0 {
				continue
			}

			if kind == ".txt" {
				text, err := json.Marshal(string(line))
				if err != nil {
					return err
				}
				line = fmt.Appendf(nil, `{"text":%s}`, text)
			}
			if err := next(bytes.Clone(line)); err != nil {
				return err
			}
		}

		if err := s.Err(); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		return nil
	}
}

// jsonObjects calls each with the objects of a JSON file. Lists are flattened.
func jsonObjects(r io.Reader, name string, each func(raw []byte) error) error {
	d := json.NewDecoder(r)
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}

		for _, raw := range list {
			if err := each(raw); err != nil {
				return err
			}
		}
	}
}

// numbers are the columns of CSV files whose values are numbers.
var numbers = []string{"timestamp", "delay", "input_length", "output_length", "Timestamp", "Request tokens",
	"Response tokens"}

func csvObjects(r io.Reader, name string, each func(raw []byte, place int) error) error {
	in := csv.NewReader(r)
	head, err := in.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	for {
		row, err := in.Read()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		fields := map[string]any{}
		line, _ := in.FieldPos(0)
		for i, column := range head {
			column, value := strings.TrimSpace(column), any(row[i])
			if slices.Contains(numbers, column) {
				if value = json.RawMessage(row[i]); !json.Valid([]byte(row[i])) && row[i] != "" {
					return fmt.Errorf("%s:%d: %s is %q", name, line, column, row[i])
				}
			}
			if row[i] != "" {
				fields[column] = value
			}
		}

		raw, err := json.Marshal(fields)
		if err == nil {
			err = each(raw, line)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}
