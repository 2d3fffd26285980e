// SPDX-License-Identifier: Apache-2.0
// word_classes.h -- action = "writeWordAndClass": the vocabulary of a text, and word classes of about equal weight for
// class-based language models.
#pragma once

#include <iosfwd>

#include "actions/action.h"

namespace tutti::actions {

struct WordClassOptions {
  std::string input_file, vocabulary_file, mapping_file, word_to_class_file, class_to_index_file;
  std::string unknown = "<unk>", begin_sequence, end_sequence;
  std::int64_t vocabulary_size = 0, classes = 0, cutoff = 1;
  bool make_mode = true;
  void describe(config::Fields&);
};

struct WordClasses {
  struct Word {
    std::string text;
    double count = 0;
    std::int64_t cls = 0;
  };
  std::vector<Word> words;                // most frequent first; a class is a range of them
  std::vector<std::int64_t> first_words;  // by class; an empty class begins where the next one does
  std::size_t found = 0;                  // different words of the text
};
// Each line is a sequence. Its first word, the sentence start, is not counted. Words of equal frequency are sorted
// alphabetically. Throws Error if no word is more frequent than the cutoff.
WordClasses make_word_classes(std::istream& text, const WordClassOptions&);

}  // namespace tutti::actions
