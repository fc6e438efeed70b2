#pragma once
// The lead-in's text. It is part of the chunk key by its token ids: another wording is another
// store.
#include <string_view>

namespace tessera {

inline constexpr std::string_view kLeadinText =
    "This is a collection of short passages on many subjects, gathered from different places "
    "and kept in no special order. Some of them tell a story, some describe a thing or a "
    "person, and some only state what is known. Each passage stands on its own and can as well "
    "be read without any of the others.\n"
    "The passages were written by many hands. Their style therefore varies: one is formal and "
    "dense, the next is plain and short. A name that appears in one of them need not mean the "
    "same in another, and a passage may leave out what its author took for granted. Where two "
    "passages speak of the same matter they may agree, add to each other, or differ.\n"
    "Not every passage is of use for every purpose. A reader who looks for something in "
    "particular will find that most of the text is about other things, and that the part which "
    "matters is often a single sentence. It helps to read slowly, to note who or what a "
    "sentence is about, and to go back when something is unclear. Nothing depends on the order "
    "in which the passages are read, and it does no harm to begin in the middle.\n"
    "A passage usually begins with a title or with the name of its subject. What follows "
    "explains it, gives the circumstances, and sometimes mentions times, places and numbers. "
    "Small details are easily overlooked, and it is worth reading them with the same care as "
    "the rest. When a passage ends, the next one begins on a new line, and its subject may be "
    "entirely different from the one before.\n"
    "Some passages are long and others are very short, and the length of a passage says little "
    "about its worth. What is said once in passing may matter as much as what is said at "
    "length.\n"
    "The collection continues below.\n";

}  // namespace tessera
