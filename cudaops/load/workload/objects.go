package workload

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/parquetrows"
	"aicplan/sink/base/textutil"
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
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	kind := filepath.Ext(name)
	if kind != ".parquet" {
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		if i := textutil.NotUTF8(data); i >= 0 {
			return fmt.Errorf("%s:%d: the byte 0x%02x is no UTF-8; save the file as UTF-8", name,
				1+bytes.Count(data[:i], []byte("\n")), data[i])
		}
	}

	n := 0
	next := func(raw []byte) error {
		if err := each(raw, n); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		return nil
	}

	switch kind {
	case ".csv":
		return csvObjects(bytes.NewReader(data), name, each)

	case ".json":
		return jsonObjects(bytes.NewReader(data), name, func(raw []byte) error {
			n++
			return next(raw)
		})

	case ".parquet":
		list, err := parquetrows.Objects(bytes.NewReader(data), "messages", "tools")
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
		for line := range bytes.Lines(data) {
			n++
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}

			if kind == ".txt" {
				text, err := json.Marshal(string(line))
				if err != nil {
					return err
				}
				line = fmt.Appendf(nil, `{"text":%s}`, text)
			}
			if err := next(line); err != nil {
				return err
			}
		}
		return nil
	}
}

// decode decodes an object. Errors of types name the field as the file has it.
func decode(raw []byte, to any) error {
	err := json.Unmarshal(raw, to)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("this is not an object but %s", wrong.Value)
	}
	return fmt.Errorf("%s is a %s; the type is %v", wrong.Field[strings.LastIndex(wrong.Field, ".")+1:], wrong.Value,
		wrong.Type)
}

// A missing error lists the fields of which an object needs one.
type missing string

func (m missing) Error() string { return string(m) }

// named adds the fields that an object has to a missing error.
func named(err error, raw []byte) error {
	var fields map[string]json.RawMessage
	if _, ok := errors.AsType[missing](err); !ok || json.Unmarshal(raw, &fields) != nil {
		return err
	}
	has := textutil.Clip(strings.Join(slices.Sorted(maps.Keys(fields)), ", "), 120)
	return fmt.Errorf("%w, but %s", err, cmp.Or(has, "no field at all"))
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
var numbers = []string{"timestamp", "delay", "input_length", "output_length", "output_tokens", "max_completion_tokens",
	"max_tokens", "Timestamp", "Request tokens", "Response tokens"}

func csvObjects(r io.Reader, name string, each func(raw []byte, place int) error) error {
	in := csv.NewReader(r)
	head, err := in.Read()
	if err == io.EOF {
		return nil
	} else if err != nil {
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
				var number float64 // pandas writes whole numbers as 3.0 if some are missing
				if row[i] != "" && json.Unmarshal([]byte(row[i]), &number) != nil {
					return fmt.Errorf("%s:%d: %s is %q", name, line, column, row[i])
				}
				value = number
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
