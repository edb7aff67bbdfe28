package tree

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// decodeOne reads a file of one YAML document. Of several the first alone would be
// read, and the others would be gone once the file is written again.
func decodeOne(data []byte, dst any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(dst); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // only comments; the caller reports what is missing
		}

		return err
	}

	var next yaml.Node
	if err := d.Decode(&next); !errors.Is(err, io.EOF) {
		return errors.New("it contains several YAML documents (---), and readers take one")
	}

	return nil
}
