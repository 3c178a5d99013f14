// SPDX-License-Identifier: Apache-2.0
// Writes a C++ file that holds the text of other files: embed OUT ROOT FILE...  (FILEs are named from ROOT).
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

int main(int argc, char** argv) {
    if (argc < 3) {
        std::cerr << "usage: embed OUT ROOT FILE...\n";
        return 2;
    }
    std::ofstream out(argv[1]);
    out << "#include \"codegen/bundle/bundle.h\"\n\nnamespace thunderc {\n\nconst BundledFile bundled_files[] = {\n";
    for (int k = 3; k < argc; ++k) {
        std::ifstream in(std::string(argv[2]) + "/" + argv[k], std::ios::binary);
        if (!in) {
            std::cerr << "embed: cannot read " << argv[k] << "\n";
            return 1;
        }
        std::stringstream text;
        text << in.rdbuf();
        out << "    {\"" << argv[k] << "\",\n";
        // Literals in pieces: a compiler has to take no more than 64 KiB in one.
        const std::string all = text.str();
        for (std::size_t at = 0; at < all.size() || at == 0; at += 16000)
            out << "R\"thunderc(" << all.substr(at, 16000) << ")thunderc\"\n";
        out << "    },\n";
    }
    out << "};\nconst unsigned bundled_file_count = " << argc - 3 << ";\n\n}  // namespace thunderc\n";
    return out.good() ? 0 : 1;
}
