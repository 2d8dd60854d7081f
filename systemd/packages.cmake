# Debian packages: cmake --preset package && cmake --build build/package && (cd build/package && cpack)
#
#   pgwaked         the daemon, its units, manuals
#   libpgwake1      the client library
#   libpgwake-dev   what programs are built with
#   python3-pgwake  the client for Python
#   ruby-pgwake     the client for Ruby
#   node-pgwake     the client for Node.js, where its headers are installed
#   *-dbgsym        debug symbols of each that is compiled
set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc)

# Who answers for packages built from here: whoever builds them, as Debian's own tools learn it. Otherwise nobody, in a
# domain that can never exist (RFC 2606).
set(contact "pgwake developers <pgwake@pgwake.invalid>")
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(PGWAKE_PACKAGE_CONTACT "${contact}" CACHE STRING "Maintainer of the Debian packages")
set(release 1)

# Debian Policy 12.5: each package has its license, which LICENSE holds in plain text.
file(STRINGS ${PROJECT_SOURCE_DIR}/LICENSE license)
list(POP_FRONT license)  # the name
list(POP_FRONT license holder gap)
string(REGEX REPLACE "^Copyright \\(c\\) " "" holder "${holder}")
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pgwake

Files: *
Copyright: ${holder}
License: PostgreSQL
")
foreach(line IN LISTS license)
  if(line STREQUAL "")
    set(line ".")
  endif()
  string(APPEND copyright " ${line}\n")
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/copyright "${copyright}")

# Policy 12.7 and 4.4: what changed upstream, and Debian's own form of a changelog, which points there.
string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH counts
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian "pgwake (${PROJECT_VERSION}-${release}) unstable; urgency=medium

  * Built from upstream's source; changelog.gz says what changed.

 -- ${PGWAKE_PACKAGE_CONTACT}  ${today}
")
find_program(GZIP gzip REQUIRED)
set(changelogs ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz)
add_custom_command(OUTPUT ${changelogs}
  COMMAND ${GZIP} -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md > changelog.gz
  COMMAND ${GZIP} -9nkf changelog.Debian
  DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian VERBATIM)
add_custom_target(changelogs ALL DEPENDS ${changelogs})

set(packages_of_components pgwaked pgwaked runtime libpgwake1 development libpgwake-dev python python3-pgwake
  ruby ruby-pgwake)
if(TARGET pgwake_node)
  list(APPEND packages_of_components node node-pgwake)
endif()
while(packages_of_components)
  list(POP_FRONT packages_of_components component package)
  set(unless_asked "")
  if(component MATCHES "^(python|ruby|node)$")  # as the rest of them: not with a plain installation
    set(unless_asked EXCLUDE_FROM_ALL)
  endif()
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright ${changelogs} DESTINATION ${doc}/${package}
    COMPONENT ${component} ${unless_asked})
endwhile()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pgwake)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${PGWAKE_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # else it stands before every package's own
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL pgwaked runtime development python ruby)
if(TARGET pgwake_node)
  list(APPEND CPACK_COMPONENTS_ALL node)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${release})
set(CPACK_DEBIAN_PACKAGE_SOURCE pgwake)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/finish-packages.cmake)

set(CPACK_DEBIAN_PGWAKED_PACKAGE_NAME pgwaked)
set(CPACK_DEBIAN_PGWAKED_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PGWAKED_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PGWAKED_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_PGWAKED_PACKAGE_SUGGESTS "postgresql-client")
set(CPACK_DEBIAN_PGWAKED_DESCRIPTION "one LISTEN connection per host for PostgreSQL
pgwaked holds the one LISTEN connection of a host and passes notifications on
to any number of local processes over a Unix socket. Subscriptions are
acknowledged once LISTEN is committed, and what may have been missed is
announced.")
set(CPACK_DEBIAN_PGWAKED_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/pgwaked/postinst
  ${CMAKE_CURRENT_SOURCE_DIR}/debian/pgwaked/prerm ${CMAKE_CURRENT_SOURCE_DIR}/debian/pgwaked/postrm)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libpgwake1)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS pgwaked)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/libpgwake1/triggers)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "client library for the PostgreSQL notification hub pgwaked
It receives notifications from the host's pgwaked, and from a PostgreSQL
connection of its own while that is away; what may have been missed is
announced.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpgwake-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpgwake1 (= ${PROJECT_VERSION}-${release})")
set(CPACK_DEBIAN_DEVELOPMENT_DEBUGINFO_PACKAGE OFF)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "client library for the PostgreSQL notification hub pgwaked (development)
Headers for C and C++, and packages for CMake and pkg-config.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-pgwake)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3:any (>= 3.9), libpgwake1 (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "pgwaked, python3-trio")
set(CPACK_DEBIAN_PYTHON_DEBUGINFO_PACKAGE OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/python3-pgwake/postinst
  ${CMAKE_CURRENT_SOURCE_DIR}/debian/python3-pgwake/prerm)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "Python client for the PostgreSQL notification hub pgwaked
It receives notifications from the host's pgwaked, and from a PostgreSQL
connection of its own while that is away: in blocking code, asyncio and trio.")

set(CPACK_DEBIAN_RUBY_PACKAGE_NAME ruby-pgwake)
set(CPACK_DEBIAN_RUBY_PACKAGE_SECTION ruby)
set(CPACK_DEBIAN_RUBY_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_RUBY_PACKAGE_DEPENDS "ruby (>= 1:3.1), libpgwake1 (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_RUBY_PACKAGE_SUGGESTS pgwaked)
set(CPACK_DEBIAN_RUBY_DEBUGINFO_PACKAGE OFF)
set(CPACK_DEBIAN_RUBY_DESCRIPTION "Ruby client for the PostgreSQL notification hub pgwaked
It receives notifications from the host's pgwaked, and from a PostgreSQL
connection of its own while that is away.")

set(CPACK_DEBIAN_NODE_PACKAGE_NAME node-pgwake)
set(CPACK_DEBIAN_NODE_PACKAGE_SECTION javascript)
set(CPACK_DEBIAN_NODE_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_NODE_PACKAGE_DEPENDS "nodejs (>= 18), libpgwake1 (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_NODE_PACKAGE_SUGGESTS "pgwaked, node-pg")
set(CPACK_DEBIAN_NODE_DESCRIPTION "Node.js client for the PostgreSQL notification hub pgwaked
It receives notifications from the host's pgwaked, and from a PostgreSQL
connection of its own while that is away.")

include(CPack)
